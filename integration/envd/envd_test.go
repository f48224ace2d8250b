package envd

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb/filesystempbconnect"
	"github.com/caddy-e2b/gateway/integration/envd/processpb/processpbconnect"
	"github.com/caddy-e2b/gateway/integration/rock/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for a command or the kernel; it is never waited out by a passing test.
const patience = 20 * time.Second

// sandbox is a served Handler and the clients of one codec over one HTTP version.
type sandbox struct {
	handler *Handler
	url     string
	http    *http.Client
	process processpbconnect.ProcessClient
	files   filesystempbconnect.FilesystemClient
}

// dialect is one way to talk to a sandbox.
type dialect struct {
	name    string
	h2c     bool
	options []connect.ClientOption
}

var dialects = []dialect{
	{"JSON over HTTP/1.1", false, []connect.ClientOption{connect.WithProtoJSON()}},
	{"JSON over h2c", true, []connect.ClientOption{connect.WithProtoJSON()}},
	{"proto over HTTP/1.1", false, nil},
	{"proto over h2c", true, nil},
	{"gRPC over h2c", true, []connect.ClientOption{connect.WithGRPC()}},
}

// inEveryDialect runs a test once a dialect, each with a fresh sandbox.
func inEveryDialect(t *testing.T, test func(*testing.T, *sandbox)) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) { test(t, serve(t, d, Options{})) })
	}
}

// open serves a sandbox to the dialect of the SDKs.
func open(t *testing.T, o Options) *sandbox { return serve(t, dialects[0], o) }

func serve(t *testing.T, d dialect, o Options) *sandbox {
	t.Helper()
	if o.Box == nil && o.Root == "" {
		o.Root = filepath.Join(t.TempDir(), "root")
	}
	h, err := New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	transport := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!d.h2c)
	transport.Protocols.SetUnencryptedHTTP2(d.h2c)
	client := &http.Client{Transport: transport}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		transport.CloseIdleConnections()
		server.Close()
		if o.Root != "" {
			if err := run.Remove(o.Root); err != nil {
				t.Errorf("Remove: %v", err)
			}
		}
	})
	return &sandbox{
		handler: h,
		url:     server.URL,
		http:    client,
		process: processpbconnect.NewProcessClient(client, server.URL, d.options...),
		files:   filesystempbconnect.NewFilesystemClient(client, server.URL, d.options...),
	}
}

// wantCode fails unless err is a Connect error with this code.
func wantCode(t *testing.T, err error, want connect.Code) {
	t.Helper()
	if got := connect.CodeOf(err); err == nil || got != want {
		t.Fatalf("error is %v, want code %v", err, want)
	}
}

// eventually polls what only another process or the kernel can make true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("still not: %s", what)
		}
	}
}

func TestHealthIs204(t *testing.T) {
	s := open(t, Options{AccessToken: "tok"})
	resp, err := s.http.Get(s.url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("status %d, want 204", resp.StatusCode)
	}
}

func TestPreflightNeedsNoToken(t *testing.T) {
	s := open(t, Options{AccessToken: "tok"})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, s.url+"/files?path=x", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("status %d, allowed origin %q", resp.StatusCode, resp.Header.Get("Access-Control-Allow-Origin"))
	}
}

func TestAfterCloseRequestsAreCut(t *testing.T) {
	s := open(t, Options{})
	if err := s.handler.Close(); err != nil {
		t.Fatal(err)
	}
	resp, err := s.http.Get(s.url + "/health")
	if err == nil {
		resp.Body.Close()
		t.Fatalf("status %d from a sandbox that is switched off", resp.StatusCode)
	}
}

func TestAGivenBoxOutlivesTheHandler(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	box, err := run.Open(run.Options{Root: root, Env: map[string]string{"COLOR": "red"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(box.Close(), run.Remove(root)); err != nil {
			t.Error(err)
		}
	})
	s := open(t, Options{Box: box})
	if got := s.run(t, `printf %s "$COLOR"`).stdout; got != "red" {
		t.Errorf("the box's environment gives %q, want red", got)
	}
	if err := s.handler.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := box.Start(run.Command{Args: []string{"-c", "true"}})
	if err != nil {
		t.Fatalf("box is unusable after Close of the handler: %v", err)
	}
	defer p.Close()
	if exit := p.Wait(); exit != (run.Exit{}) {
		t.Errorf("exit %v", exit)
	}
}
