package rock

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// fakeEnvd stands in for a real envd: it names its sandbox and can hold a stream open.
type fakeEnvd struct {
	id     string
	closed chan struct{}
}

func (e *fakeEnvd) Close() error { close(e.closed); return nil }

func (e *fakeEnvd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, e.id)
	if r.URL.Path == "/process.Process/Start" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func newEnvdRig(t *testing.T) (*rig, map[string]*fakeEnvd) {
	made := map[string]*fakeEnvd{}
	g := newRig(t, Options{Listeners: true, Envd: func(s *Sandbox) http.Handler {
		if _, err := s.Box(); err != nil {
			t.Error(err)
		}
		e := &fakeEnvd{id: s.ID, closed: make(chan struct{})}
		made[s.ID] = e
		return e
	}})
	return g, made
}

func TestProfileEnvdRoutesByTheSandboxHeader(t *testing.T) {
	g, _ := newEnvdRig(t)
	g.create("a")
	g.create("b")
	for _, path := range []string{"/health", "/files?path=x"} {
		g.do("GET", g.proxy.URL()+path, "", sandboxHeader, "b").want(t, 200, "b")
	}
	g.do("POST", g.proxy.URL()+"/process.Process/List", "{}", sandboxHeader, "a").want(t, 200, "a")
	g.do("GET", g.proxy.URL()+"/nothing", "", sandboxHeader, "a").want(t, 404, `{"detail":"Not Found"}`)
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "no").want(t, 502, "")
	g.do("GET", g.proxy.URL()+"/files", "", sandboxHeader, "no").want(t, 404, `{"code":404,"message":"sandbox is not running"}`)
	g.do("GET", g.proxy.URL()+"/files", "").want(t, 400, `{"code":400,"message":"E2b-Sandbox-Id header is required"}`)
	g.do("POST", g.proxy.URL()+"/filesystem.Filesystem/Stat", "{}", sandboxHeader, "no").want(t, 404, `{"code":"not_found","message":"sandbox is not running"}`)
	if got := frames(t, g.start("no", command("true")).body); len(got) != 1 || !strings.Contains(got[0], "not_found") {
		t.Fatalf("got %q", got)
	}
}

func TestEachSandboxListensWhereItsRecordSays(t *testing.T) {
	g, _ := newEnvdRig(t)
	s := g.create("own")
	rec := g.record("alive:own")
	port, _ := json.Marshal(rec["port_mapping"].(map[string]any)["49983"])
	addr := rec["host_ip"].(string) + ":" + string(port)
	if addr != s.Addr() {
		t.Fatalf("record says %s, listener is %s", addr, s.Addr())
	}
	g.do("GET", "http://"+addr+"/health", "").want(t, 200, "own")
	if rs := g.c.Log().Requests(Match{Role: Envd, Sandbox: "own"}); len(rs) != 1 {
		t.Fatalf("got %v", rs)
	}
}

func TestAnAddressIsGivenAwayAgain(t *testing.T) {
	port := 0
	g := newRig(t, Options{Listeners: true, EnvdPort: func(*Sandbox) int { return port }, Envd: func(s *Sandbox) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s.ID) })
	}})
	first := g.create("first")
	address := first.Addr()
	port = first.Port()
	g.do("DELETE", g.admin.URL()+"/sandboxes/first", "").want(t, 204, "")
	if got := g.create("second").Addr(); got != address {
		t.Fatalf("the second has %s, the first had %s", got, address)
	}
	g.do("GET", "http://"+address+"/health", "").want(t, 200, "second")
}

func TestKillResetsConnectionsOfProfileEnvd(t *testing.T) {
	g, made := newEnvdRig(t)
	s := g.create("k")
	var streams []*http.Response
	for _, base := range []string{g.proxy.URL(), "http://" + s.Addr()} {
		resp := g.open("POST", base+"/process.Process/Start", "", sandboxHeader, "k")
		defer func() { _ = resp.Body.Close() }()
		streams = append(streams, resp)
	}
	g.do("DELETE", g.admin.URL()+"/sandboxes/k", "").want(t, 204, "")
	for _, resp := range streams {
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v", err)
		}
	}
	<-made["k"].closed
	if _, err := g.client.Get("http://" + s.Addr() + "/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

func TestCrashInProfileEnvdLeavesTheRecordRunning(t *testing.T) {
	g, _ := newEnvdRig(t)
	s := g.create("c")
	stopped := make(chan struct{})
	s.OnStop(func() { close(stopped) })
	s.Crash()
	<-stopped
	s.OnStop(func() {}) // runs at once
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "c").want(t, 204, "")
	if r := g.do("GET", g.proxy.URL()+"/files", "", sandboxHeader, "c"); r.status != 502 {
		t.Fatalf("got %d", r.status)
	}
	if got := frames(t, g.start("c", command("true")).body); !strings.Contains(got[0], "unavailable") {
		t.Fatalf("got %q", got)
	}
	if g.record("alive:c")["state"] != "running" {
		t.Fatal("the record changed")
	}
}

func TestNothingIsWrittenAfterTheKill(t *testing.T) {
	gate := make(chan struct{})
	g := newRig(t, Options{Envd: func(s *Sandbox) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "before")
			_ = http.NewResponseController(w).Flush()
			<-s.Done()
			<-gate
			if _, err := io.WriteString(w, "after"); err == nil {
				t.Error("a dead sandbox spoke")
			}
		})
	}})
	s := g.create("k")
	resp := g.open("GET", g.proxy.URL()+"/files", "", sandboxHeader, "k")
	defer func() { _ = resp.Body.Close() }()
	s.Crash()
	close(gate)
	b, err := io.ReadAll(resp.Body)
	if string(b) != "before" && len(b) > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %q %v", b, err)
	}
}
