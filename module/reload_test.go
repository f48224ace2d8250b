package module_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

func site(e2b string) string {
	return "{" + e2b + `}
:8080 {
	e2b
}
`
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func health(t *testing.T, g *harness.Gateway, sandbox string) int {
	t.Helper()
	resp, err := g.Client().Do(ask(t.Context(), g.URL, sandbox, "/health"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// closed waits for a registry to be closed.
func closed(t *testing.T, p *probe) string {
	t.Helper()
	select {
	case label := <-p.closed:
		return label
	case <-time.After(10 * time.Second):
		t.Fatal("the registry was not closed")
		return ""
	}
}

// Field report N03.
func TestAReloadKeepsTheCacheWarm(t *testing.T) {
	p := newProbe(t)
	e2b := clusterOf(newRock(t, noContent), "registry probe a")
	g := inprocess.Start(t, site(e2b))
	if code := health(t, g, "one"); code != http.StatusNoContent {
		t.Fatalf("status %d", code)
	}
	g.Reload(site(e2b) + ":8081 {\n\trespond hello\n}\n")
	health(t, g, "one")
	if made, lookups := p.made.Load(), p.lookups.Load(); made != 1 || lookups != 1 {
		t.Errorf("%d registries and %d lookups for one sandbox, want 1 and 1", made, lookups)
	}
	if p.watching.Load() != 1 {
		t.Errorf("%d watches, want 1", p.watching.Load())
	}
	if len(p.closed) != 0 {
		t.Error("the registry was closed in use")
	}
	g.Stop()
	closed(t, p)
	if p.watching.Load() != 0 {
		t.Error("the watch goes on after the gateway stopped")
	}
}

func TestAReloadWithOtherOptionsReplacesTheRegistry(t *testing.T) {
	p := newProbe(t)
	rock := newRock(t, noContent)
	g := inprocess.Start(t, site(clusterOf(rock, "registry probe a")))
	g.Reload(site(clusterOf(rock, "registry probe b")))
	if label := closed(t, p); label != "a" {
		t.Errorf("registry %q was closed, want a", label)
	}
	if code := health(t, g, "one"); code != http.StatusNoContent {
		t.Errorf("status %d", code)
	}
}

// Field report N03.
func TestARequestOutlivesItsConfig(t *testing.T) {
	p := newProbe(t)
	arrived, finish := make(chan struct{}), make(chan struct{})
	rock := newRock(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("begin "))
		_ = http.NewResponseController(w).Flush()
		close(arrived)
		<-finish
		_, _ = w.Write([]byte("end"))
	})
	g := inprocess.Start(t, site(clusterOf(rock, "registry probe a")))
	answer := make(chan string, 1)
	go func() {
		resp, err := g.Client().Do(ask(t.Context(), g.URL, "one", "/files"))
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			body = append(body, err.Error()...)
		}
		answer <- string(body)
	}()
	<-arrived
	// Every part is another one now.
	g.Reload(site(clusterOf(rock, "registry probe b\ndial_timeout 2s")))
	if len(p.closed) != 0 {
		t.Error("the registry was closed while a request uses it")
	}
	close(finish)
	if got := <-answer; got != "begin end" {
		t.Errorf("the request ended with %q", got)
	}
	if label := closed(t, p); label != "a" {
		t.Errorf("registry %q was closed, want a", label)
	}
}

// Field report N04.
func TestAConfigThatFailsHalfWayLeavesNothingBehind(t *testing.T) {
	p := newProbe(t)
	rock := newRock(t, noContent)
	g := inprocess.Start(t, site(clusterOf(rock, "registry probe a")))
	for name, c := range map[string]struct{ config, text string }{
		"the app cannot be built": {
			site(strings.Replace(clusterOf(rock, "registry probe b"), "proxy", "tls {\nca /does/not/exist\n}\nproxy", 1)),
			"/does/not/exist",
		},
		"a secret is missing": {
			site(clusterOf(rock, "registry redis {\naddress 127.0.0.1:1\npassword {env.E2B_TEST_NOT_SET}\n}")),
			"E2B_TEST_NOT_SET",
		},
		"another module fails after us": {
			site(clusterOf(rock, "registry probe b")) + ":8081 {\n\tbasic_auth {\n\t\tuser nothash\n\t}\n}\n",
			"basic",
		},
	} {
		err := g.TryReload(c.config)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for made := p.made.Load(); made > 1; made-- {
		if label := closed(t, p); label != "b" {
			t.Errorf("registry %q was closed, want b", label)
		}
	}
	if code := health(t, g, "one"); code != http.StatusNoContent {
		t.Errorf("status %d", code)
	}
}

func TestTheGatewayStartsAndServesWithRedisDown(t *testing.T) {
	g := inprocess.Start(t, site(clusterOf(newRock(t, noContent), "registry redis {\naddress 127.0.0.1:1\n}")))
	if code := health(t, g, "one"); code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503: nothing is known of the sandbox", code)
	}
}

// A stream goes on in the config that it began with, and its sandbox is ended
// in another.
func TestAKillOrPauseReachesTheStreamsOfReplacedConfigs(t *testing.T) {
	for name, end := range map[string]func(base string) *http.Request{
		"paused": func(base string) *http.Request {
			r, _ := http.NewRequest(http.MethodPost, base+"/sandboxes/known/pause", strings.NewReader("{}"))
			return r
		},
		"was not found": func(base string) *http.Request {
			r, _ := http.NewRequest(http.MethodDelete, base+"/sandboxes/known", nil)
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			rock := newRock(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/sandboxes/") {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				w.Header().Set("Content-Type", "application/connect+json")
				w.Write(envelope.Append(nil, 0, []byte("{}")))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			g := inprocess.Start(t, site(clusterOf(rock, staticSandbox)))
			r := ask(t.Context(), g.URL, "known", "/process.Process/Start")
			r.Method, r.Body = http.MethodPost, http.NoBody
			r.Header.Set("Content-Type", "application/connect+json")
			resp, err := g.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			g.Reload(site(clusterOf(rock, staticSandbox)) + ":8081 {\n\trespond hello\n}\n") // nothing of ours
			g.Reload(site(clusterOf(rock, staticSandbox+"\nbuffer_body 32KiB\n")))
			answer, err := g.Client().Do(end(g.URL))
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			rest, err := io.ReadAll(resp.Body)
			if err != nil || !strings.Contains(string(rest), name) {
				t.Errorf("%d: the stream ended with %q, %v", answer.StatusCode, rest, err)
			}
		})
	}
}
