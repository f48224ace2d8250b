package browser

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

//go:embed page.html
var page string

// findings is what the page says of everything it tried.
type findings map[string]string

func TestAPageOfAnotherOrigin(t *testing.T) {
	for _, with := range []struct {
		by   string
		over harness.Transport
		data dataPlane
	}{
		{"py-2.34.0-sync", harness.TLS2, rockItself},
		{"py-newest-sync", harness.TLS1, rockItself},
		{"js-2.51.0", harness.TLS2, fullEnvd},
	} {
		t.Run(with.by+" over "+string(with.over)+" on "+string(with.data), func(t *testing.T) {
			s := open(t, with.over, with.data)
			s.visit(t, client.Named(t, with.by))
		})
	}
}

// visit lets an SDK make a sandbox and its URLs, a page use them, and the SDK look at what the page has done; then the sandbox is gone.
func (s *scene) visit(t *testing.T, by client.Client) {
	listen, speak, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer speak.Close()
	p := client.Start(t, by, s.deployment(), client.Program{Folder: "integration/browser", Name: "urls", Stdin: listen, Limit: 3 * time.Minute})
	listen.Close()
	defer p.Kill()
	var v visit
	if !p.Out.Scan() || json.Unmarshal(p.Out.Bytes(), &v) != nil {
		t.Fatalf("the program prints %q; %v\n%s", p.Out.Text(), p.Wait(), p.Stderr())
	}
	s.serveApp(t, v.Sandbox)
	origin, seen := s.visitors(t, v)
	for name, want := range map[string]string{
		"download":          "200 żółw, 東京",
		"download, expires": "200 żółw, 東京",
		"download, expired": "401 ",
		"upload":            "200 [",
		"upload, expires":   "200 [",
		"call":              "200 {\"entry\":",
		"call, wrong token": "401 {",
		"app, open":         "200 for " + origin,
		"app, shut":         "TypeError: Failed to fetch",
		"app, events":       "an event",
		"app, socket":       "said by a page, closed with 1000",
		"health of nobody":  "502 {",
	} {
		if got := seen[name]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	_, _ = io.WriteString(speak, "\n")
	if !p.Out.Scan() || p.Out.Text() != `["written by a page", "written by a page in time"]` {
		t.Errorf("the SDK reads %s after the page has written; %s", p.Out.Text(), p.Stderr())
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the program: %v\n%s", err, p.Stderr())
	}
	document := show(t, &s.Endpoint, "https://"+v.Host+"/")
	if !strings.Contains(document, "<h1>") || !strings.Contains(document, "was not found") || strings.Contains(document, `"code"`) {
		t.Errorf("at the host of a sandbox that is gone somebody sees %s", document)
	}
}

// visitors opens the page in the browser and returns its origin and what it found.
func (s *scene) visitors(t *testing.T, v visit) (origin string, seen findings) {
	t.Helper()
	told := make(chan findings, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text, _ := json.Marshal(v)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.Replace(page, "__VISIT__", string(text), 1))
	})
	mux.HandleFunc("POST /findings", func(_ http.ResponseWriter, r *http.Request) {
		var f findings
		_ = json.NewDecoder(r.Body).Decode(&f)
		told <- f
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var complaints bytes.Buffer
	// A page that is only shown would be closed before it is done; one that can be debugged stays.
	cmd := chromium(ctx, t, &s.Endpoint, "--remote-debugging-port=0", server.URL+"/")
	cmd.Stderr = &complaints
	ended := make(chan error, 1)
	go func() { ended <- run(cmd) }()
	select {
	case seen = <-told:
		cancel()
		<-ended
	case err := <-ended:
		cancel()
		t.Fatalf("the browser ended before the page said anything: %v\n%s", err, complaints.String())
	}
	return server.URL, seen
}
