package outage

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
)

// Field reports F08, F09, F10: whatever stands in the registry, the client gets
// an answer of the table, the operator a line that says why, nobody else is
// disturbed, and nothing is sent to anybody.
func TestEveryBadRecordHasItsAnswer(t *testing.T) {
	const good = `{"sandbox_id":"good","state":"running","host_ip":"127.0.0.1","port_mapping":{"49983":%s}}`
	type record struct {
		name, value string
		asList      bool
		health      int
		log         string // in the line that says why
	}
	common := []record{
		{name: "unknown-state", value: `{"state":"moving"}`, health: 503, log: "route_unusable"},
		{name: "no-state", value: `{"host_ip":"127.0.0.1"}`, health: 503, log: "route_unusable"},
		{name: "not-json", value: `{"state":`, health: 503, log: "route_unusable"},
		{name: "a-number", value: `7`, health: 503, log: "route_unusable"},
		{name: "wrong-types", value: `{"state":{"x":1}}`, health: 503, log: "route_unusable"},
		{name: "wrong-key-type", asList: true, health: 503, log: "route_unusable"},
		{name: "somebody-else", value: `{"sandbox_id":"other","state":"running"}`, health: 503, log: "route_unusable"},
		{name: "empty-array", value: `[]`, health: 502, log: "sandbox_gone"},
		{name: "null", value: `null`, health: 502, log: "sandbox_gone"},
		{name: "pending", value: `{"state":"pending","host_ip":"127.0.0.1"}`, health: 502, log: "sandbox_starting"},
		{name: "stopped", value: `{"state":"stopped"}`, health: 502, log: "sandbox_paused"},
		{name: "archiving", value: `{"state":"archiving"}`, health: 502, log: "sandbox_paused"},
		{name: "deleted", value: `{"state":"deleted"}`, health: 502, log: "sandbox_gone"},
		{name: "no-record", health: 502, log: "sandbox_gone"},
	}
	direct := []record{
		{name: "no-host", value: `{"state":"running","port_mapping":{"49983":1}}`, health: 503, log: "no address"},
		{name: "default-host", value: `{"state":"running","host_ip":"default","port_mapping":{"49983":1}}`, health: 503, log: "no address"},
		{name: "host-name", value: `{"state":"running","host_ip":"worker-7","port_mapping":{"49983":1}}`, health: 503, log: "no address"},
		{name: "metadata-host", value: `{"state":"running","host_ip":"169.254.169.254","port_mapping":{"49983":80}}`, health: 503, log: "allowed networks"},
		{name: "no-port", value: `{"state":"running","host_ip":"127.0.0.1","port_mapping":{"8080":1}}`, health: 503, log: "port_closed"},
		{name: "bad-port", value: `{"state":"running","host_ip":"127.0.0.1","port_mapping":{"49983":70000}}`, health: 503, log: "port_closed"},
	}
	for mode, records := range map[string][]record{
		"mode rock":                       common,
		"mode direct\nallow 127.0.0.1/32": append(direct, common...),
	} {
		t.Run(strings.Fields(mode)[1], func(t *testing.T) {
			var calls atomic.Int32
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/sandboxes/no-record" { // the admin role is asked whether it was stopped
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)
					io.WriteString(w, `{"code":404,"message":"not found"}`)
					return
				}
				calls.Add(1)
				w.WriteHeader(http.StatusNoContent)
			}))
			defer upstream.Close()
			s := &scene{redis: redistest.Start(t, redistest.Options{})}
			s.Gateway = inprocess.Start(t, fmt.Sprintf(`{
	e2b {
		keys off
		registry redis {
			address %s
		}
		cluster test {
			admin %s
			proxy %s
			%s
		}
	}
}
:80 {
	e2b
}
`, s.redis.Addr, upstream.URL, upstream.URL, mode))
			s.client = s.Client()
			port := upstream.URL[strings.LastIndexByte(upstream.URL, ':')+1:]
			// Numbers written as strings are understood.
			s.redis.Do("SET", "alive:good", fmt.Sprintf(good, `"`+port+`"`))
			for _, r := range records {
				switch {
				case r.asList:
					s.redis.Do("RPUSH", "alive:"+r.name, "x")
				case r.value != "":
					s.redis.Do("SET", "alive:"+r.name, r.value)
				}
				status, body := s.health(t.Context(), r.name)
				if status != r.health || codeOf(body) != r.health {
					t.Errorf("%s: health %d %s", r.name, status, body)
				}
				if strings.Contains(body, "127.0.0.1") || strings.Contains(body, "169.254") {
					t.Errorf("%s: %s names an address", r.name, body)
				}
				line := lineOf(s.Logs(), r.name)
				for limit := time.Now().Add(5 * time.Second); line == "nothing" && time.Now().Before(limit); line = lineOf(s.Logs(), r.name) {
					s.health(t.Context(), r.name) // a cause has ten lines a second, and the records before this one took them
				}
				if !strings.Contains(line, r.log) {
					t.Errorf("%s: the log says %s", r.name, line)
				}
				if n := calls.Load(); n != 0 {
					t.Fatalf("%s: something was sent", r.name)
				}
			}
			if status, body := s.health(t.Context(), "good"); status != http.StatusNoContent || calls.Load() != 1 {
				t.Errorf("the good one: %d %s", status, body)
			}
		})
	}
}

// lineOf is the log line about a sandbox.
func lineOf(log, sandbox string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"sandbox_id":"`+sandbox+`"`) {
			return line
		}
	}
	return "nothing"
}
