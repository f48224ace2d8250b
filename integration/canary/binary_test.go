package canary

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// traces is a collector of spans that keeps what it is sent.
type traces struct {
	mu   sync.Mutex
	sent bytes.Buffer
	some chan struct{} // closed when there is something
}

func newTraces(t *testing.T) *traces {
	t.Helper()
	c := &traces{some: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n, _ := io.Copy(&c.sent, r.Body); n > 0 && c.some != nil {
			close(c.some)
			c.some = nil
		}
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT": server.URL,
		"OTEL_BSP_SCHEDULE_DELAY": "50",
	} {
		t.Setenv(name, value)
	}
	return c
}

// The real binary with all that Caddy says of itself: its streams, the admin
// endpoint, its commands, and spans. Field report M17.
func TestNoSecretComesOutOfTheBinary(t *testing.T) {
	s := newScene(t)
	spans := newTraces(t)
	some := spans.some
	config := s.caddyfile(s.redis.Addr, s.access(), "")
	p := harness.Binary(t, config)
	s.known(t, p.URL, p.Client())
	who := s.everything()
	told := s.drive(t, p.URL, p.Client(), who, "none", "reset in the body", "a traceback")
	other := s.drive(t, p.URL, p.Client(), credentials{"X-Api-Key": {s.othersKey}}, "none")
	s.server.absent(t, "an answer", told+other)
	s.mine.absent(t, "an answer to another client", s.withoutItsOwn(other))

	for _, path := range []string{"/config/", "/e2b/", "/e2b/status", "/e2b/ready", "/e2b/live", "/e2b/history", "/e2b/routes",
		"/e2b/routes/known", "/e2b/routes/known?fresh=true", "/e2b/streams", "/e2b/drains", "/metrics", "/reverse_proxy/upstreams", "/debug/vars",
		"/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/nothing"} {
		status, answer := admin(t, p, http.MethodGet, path, "", "")
		if status != http.StatusOK && path != "/nothing" {
			t.Errorf("GET %s: %d %s", path, status, answer)
		}
		s.slots.absent(t, "GET "+path, answer)
		if path == "/metrics" && !strings.Contains(answer, `e2b_gateway_requests_total{cluster="default",end="ok",plane="data"}`) {
			t.Error("the gateway's metrics are not there, so this proves nothing of them")
		}
	}
	explainEverything(t, s, p)
	// An operator who writes secrets into a config: it is refused, and the answer
	// is for whoever may see a terminal.
	for name, broken := range map[string]string{
		"password":    strings.Replace(config, "{env."+envRedis+"}", os.Getenv(envRedis), 1),
		"AES key":     strings.Replace(config, "{env."+envAES+"}", os.Getenv(envAES), 1),
		"token key":   strings.Replace(config, "{env."+envTokens+"}", os.Getenv(envTokens), 1),
		"API key":     strings.Replace(config, "keys static {\n\t\t\tkey ", "keys static {\n\t\t\tkey "+s.key+" carol\n\t\t\tkey ", 1),
		"redis URL":   strings.Replace(config, "address "+s.redis.Addr, "address redis://:"+os.Getenv(envRedis)+"@"+s.redis.Addr, 1),
		"ROCK's user": strings.Replace(config, "admin http://", "admin http://rock:"+os.Getenv(envRedis)+"@", 1),
	} {
		if broken == config {
			t.Fatalf("%s: nothing was replaced", name)
		}
		status, answer := admin(t, p, http.MethodPost, "/load", "text/caddyfile", broken)
		if status == http.StatusOK {
			t.Errorf("%s: a config with a secret in it was accepted", name)
		}
		s.slots.absent(t, name+": the answer to POST /load", answer)
		file := filepath.Join(s.dir, "Caddyfile")
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"adapt", "validate"} {
			out, err := exec.CommandContext(t.Context(), harness.Build(t), command, "--config", file).CombinedOutput()
			if err == nil {
				t.Errorf("%s: %s accepts a config with a secret in it", name, command)
			}
			s.slots.absent(t, name+": "+command, string(out))
		}
	}
	file := filepath.Join(s.dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"adapt", "--pretty", "--config", file}, {"validate", "--config", file}} {
		out, err := exec.CommandContext(t.Context(), harness.Build(t), command...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", command, err, out)
		}
		s.slots.absent(t, command[0], string(out))
	}
	_, endpoint, _ := strings.Cut(p.AdminURL(), "://")
	// Keys come by standard input; one that comes as an argument is not repeated.
	for _, tc := range []struct {
		args  []string
		stdin string
	}{
		{[]string{"keys", "check", "--config", file}, s.key},
		{[]string{"keys", "check", "--config", file}, s.key + "0"},
		{[]string{"keys", "hash"}, s.key},
		{[]string{"keys", "hash", s.key}, ""},
		{[]string{"doctor", "--config", file}, ""},
		{[]string{"doctor", "--config", file, "--json"}, ""},
		{[]string{"tokens", "check", "--config", file}, s.key},
		{[]string{"tokens", "check", "--config", file, s.key}, ""},
		{[]string{"explain", "http://localhost/sandboxes", "--credential", "X-API-Key", "--address", endpoint}, s.key},
		{[]string{"explain", "http://localhost/sandboxes", "--credential", "X-API-Key", "--json", "--address", endpoint}, s.key},
		{[]string{"explain", "http://localhost/sandboxes", "--header", "X-API-Key: " + s.key, "--address", endpoint}, ""},
		{[]string{"routes", "list", "--address", endpoint}, ""},
		{[]string{"routes", "list", "--json", "--address", endpoint}, ""},
		{[]string{"streams", "list", "--json", "--address", endpoint}, ""},
	} {
		command := exec.CommandContext(t.Context(), harness.Build(t), tc.args...)
		command.Stdin = strings.NewReader(tc.stdin)
		out, _ := command.CombinedOutput()
		if len(out) == 0 {
			t.Errorf("%s %s says nothing, so it proves nothing", tc.args[0], tc.args[1])
		}
		s.slots.absent(t, tc.args[0]+" "+tc.args[1], string(out))
	}

	select {
	case <-some:
	case <-time.After(20 * time.Second):
		t.Error("no spans came, so they prove nothing")
	}
	p.Signal(syscall.SIGTERM)
	_ = p.Wait(t.Context())
	spans.mu.Lock()
	defer spans.mu.Unlock()
	if !strings.Contains(spans.sent.String(), "/files") {
		t.Error("no span names a path, so they prove nothing")
	}
	s.slots.absent(t, "a span", spans.sent.String())
	s.slots.absent(t, "a log", s.logged(t)+p.Logs())
}

// explainEverything asks what would become of requests with every credential, and of one
// that is lent one.
func explainEverything(t *testing.T, s *scene, p *harness.Process) {
	t.Helper()
	signed := "/files?path=%2Fa&signature=" + s.key + "&access_token=" + s.token
	for name, question := range map[string]map[string]any{
		"a key":          {"path": "/sandboxes/known", "headers": map[string][]string{"X-API-Key": {s.key}}},
		"a key to ROCK":  {"path": "/sandboxes/known", "headers": map[string][]string{"Authorization": {"Bearer " + s.key}}},
		"a token":        {"sandbox_id": "known", "path": "/process.Process/List", "headers": map[string][]string{"X-Access-Token": {s.token}}},
		"another token":  {"sandbox_id": "known", "sandbox_port": 3000, "headers": map[string][]string{"E2b-Traffic-Access-Token": {s.token}}},
		"a signed URL":   {"sandbox_id": "known", "path": signed},
		"lent":           {"sandbox_id": "known", "as_owner": true},
		"lent a key":     {"path": "/sandboxes/known", "as": "alice"},
		"no such field":  {s.key: s.token},
		"a broken path":  {"path": s.key},
		"a broken value": {"headers": map[string][]string{"X-API-Key": {s.key + "\n"}}},
	} {
		body, err := json.Marshal(question)
		if err != nil {
			t.Fatal(err)
		}
		status, answer := admin(t, p, http.MethodPost, "/e2b/explain", "application/json", string(body))
		if status != http.StatusOK && status != http.StatusBadRequest {
			t.Errorf("explain: %s: %d %s", name, status, answer)
		}
		s.slots.absent(t, "explain: "+name, answer)
	}
	for _, change := range []string{"/e2b/streams?sandbox=known", "/e2b/routes/known"} {
		_, answer := admin(t, p, http.MethodDelete, change, "", "")
		s.slots.absent(t, "DELETE "+change, answer)
	}
}

// admin asks Caddy's admin endpoint.
func admin(t *testing.T, p *harness.Process, method, path, contentType, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
