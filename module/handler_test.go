package module_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/routing"
)

// echoStream answers a Connect stream with its own bytes once it has read all
// of them, or not at all when they stop early.
func echoStream(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/connect+json")
	_, _ = w.Write(body)
	_, _ = w.Write(envelope.Append(nil, envelope.FlagEndStream, []byte("{}")))
}

// silentClient sends an envelope, nothing for more than twice read_body_idle,
// and another envelope. It returns what it was answered.
func silentClient(t *testing.T, c *http.Client, base string) (string, error) {
	t.Helper()
	body, writer := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/process.Process/StreamInput", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(routing.HeaderSandboxID, "known")
	r.Header.Set(routing.HeaderSandboxPort, "49983")
	r.Header.Set("Content-Type", "application/connect+json")
	silence := time.AfterFunc(2500*time.Millisecond, func() {
		_, _ = writer.Write(envelope.Append(nil, 0, []byte(`"second"`)))
		_ = writer.Close()
	})
	defer silence.Stop()
	go func() { _, _ = writer.Write(envelope.Append(nil, 0, []byte(`"first"`))) }()
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

// Field report C03.
func TestAClientOfTheDataPlaneMayBeSilent(t *testing.T) {
	rock := newRock(t, echoStream)
	g := inprocess.Start(t, `{
	servers {
		timeouts {
			read_body_idle 1s
			write_idle 1s
		}
	}
`+clusterOf(rock, staticSandbox)+`}
:8080 {
	e2b
}
:8081 {
	reverse_proxy `+strings.TrimPrefix(rock, "http://")+`
}
`, harness.TLS2)

	answer, err := silentClient(t, g.Client(), g.URLOf(":8080"))
	if err != nil || !strings.Contains(answer, "first") || !strings.Contains(answer, "second") {
		t.Errorf("the silent stream ended with %q, %v", answer, err)
	}
	// The same through stock Caddy, to show that the timeout is real.
	if answer, err := silentClient(t, g.Client(), g.URLOf(":8081")); strings.Contains(answer, "second") {
		t.Errorf("read_body_idle did nothing: %q, %v", answer, err)
	}
}

func TestAPathOfNoPlaneOfTheSiteNeverReachesTheNextHandler(t *testing.T) {
	g := inprocess.Start(t, "{"+clusterOf(newRock(t, echoStream), staticSandbox)+`}
:8080 {
	route {
		e2b control
		respond "the next handler"
	}
}
:8081 {
	route {
		e2b data
		respond "the next handler"
	}
}
`)
	for _, c := range []struct{ url, path string }{
		{g.URLOf(":8080"), "/health"},
		{g.URLOf(":8080"), "/elsewhere"},
		{g.URLOf(":8081"), "/sandboxes"},
		{g.URLOf(":8081"), "/"},
	} {
		resp, err := g.Client().Do(ask(t.Context(), c.url, "known", c.path))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var answer struct{ Code int }
		if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != 404 || answer.Code != 404 {
			t.Errorf("%s: %d %s", c.path, resp.StatusCode, body)
		}
	}
}

// logLines are the lines of a log that a logger wrote.
func logLines(t *testing.T, log, logger string) (lines []map[string]any) {
	t.Helper()
	for line := range bytes.Lines([]byte(log)) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if name, _ := fields["logger"].(string); strings.HasPrefix(name, logger) {
			lines = append(lines, fields)
		}
	}
	return lines
}

func TestTheAccessLogSaysWhatBecameOfARequest(t *testing.T) {
	rock := newRock(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	g := inprocess.Start(t, "{"+clusterOf(rock, staticSandbox)+`}
:8080 {
	log
	log_append placeholder_sandbox_id {http.e2b.sandbox_id}
	log_append placeholder_cluster {http.e2b.cluster}
	log_append placeholder_plane {http.e2b.plane}
	log_append placeholder_operation {http.e2b.operation}
	log_append placeholder_upstream {http.e2b.upstream}
	log_append placeholder_end {http.e2b.end}
	log_append placeholder_lookup {http.e2b.lookup}
	e2b
}
`)
	for _, sandbox := range []string{"known", "unknown"} {
		resp, err := g.Client().Do(ask(t.Context(), g.URL, sandbox, "/health"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	g.Stop()

	address := strings.TrimPrefix(rock, "http://")
	access := logLines(t, g.Logs(), "http.log.access")
	want := []map[string]string{
		{"sandbox_id": "known", "cluster": "default", "plane": "data", "operation": "health", "upstream": address,
			"end": "ok", "lookup": "registry"},
		{"sandbox_id": "unknown", "plane": "data", "operation": "health", "upstream": "", "end": "sandbox_gone"},
	}
	if len(access) != len(want) {
		t.Fatalf("%d lines in %s", len(access), g.Logs())
	}
	for i, fields := range want {
		for name, value := range fields {
			if access[i][name] != value {
				t.Errorf("request %d: field %s is %v, want %q", i, name, access[i][name], value)
			}
			if got := access[i]["placeholder_"+name]; got != value {
				t.Errorf("request %d: placeholder %s is %v, want %q", i, name, got, value)
			}
		}
	}

	complaints := logLines(t, g.Logs(), "http.handlers.e2b")
	if len(complaints) != 1 || complaints[0]["level"] != "info" || complaints[0]["end"] != "sandbox_gone" {
		t.Errorf("the gateway wrote %v, want one sandbox_gone, which is no trouble of its own", complaints)
	}
}
