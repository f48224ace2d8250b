//go:build realrock

package realrock

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
)

// keeps lets ROCK keep a sandbox that is stopped: by default it deletes it then.
const keeps = `,"auto_delete_seconds":3600`

// One deployment for all: Ray alone takes half a minute to start.
func TestTheGatewayInFrontOfTheRealROCK(t *testing.T) {
	s := open(t)
	g := harness.Binary(t, s.config("keys off", "mode direct\npause stop\nresume restart"))
	id := create(t, s.adminURL, keeps)
	t.Run("reads the record", func(t *testing.T) { s.readsTheRecord(t, g, id) })
	t.Run("carries ROCK's own API to its role", s.carriesNativeCalls)
	t.Run("lists", func(t *testing.T) { lists(t, g, id) })
	t.Run("reaches ports through the rocklet", func(t *testing.T) { reachesPorts(t, g, id) })
	t.Run("serves the SDK", func(t *testing.T) { servesTheSDK(t, g, id) })
	t.Run("says what this ROCK does not offer", func(t *testing.T) { s.saysWhatIsNotOffered(t, g, id) })
	t.Run("survives restarts", func(t *testing.T) { s.survivesRestarts(t, g, id) })
	t.Run("pauses", func(t *testing.T) { s.pauses(t, g, id) })
	t.Run("tells a deleted sandbox from a paused one", func(t *testing.T) { s.tellsDeleted(t, g) })
}

func (s *stage) readsTheRecord(t *testing.T, g *harness.Process, id string) {
	status, body := ask(t, http.MethodGet, g.AdminURL()+"/e2b/routes/"+id, "")
	if status != 200 || !strings.Contains(body, s.host) || !strings.Contains(body, "running") {
		t.Errorf("%d %s", status, body)
	}
}

func (s *stage) carriesNativeCalls(t *testing.T) {
	const root = "e2b_4d41400000"
	g := harness.Binary(t, s.config("keys static {\nkey "+auth.DigestOf(root).String()+" root {\nscopes admin\n}\n}\nrock_api admin\ntokens passthrough",
		"mode direct"))
	key := []string{"X-API-Key", root}
	id := create(t, g.URL, "", key...) // start_async by the admin role, get_status
	got := rock(t, http.MethodGet, g.URL+native+"/sandboxes", "", key...)
	if content, _ := json.Marshal(got["items"]); !strings.Contains(string(content), id) { // by the proxy role
		t.Errorf("%s is not listed: %s", id, content)
	}
	if status, _ := ask(t, http.MethodGet, g.URL+native+"/sandboxes", ""); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	rock(t, http.MethodPost, g.URL+native+"/stop", `{"sandbox_id":"`+id+`"}`, key...)
	if status, body := ask(t, http.MethodGet, s.proxyURL+native+"/sandboxes", ""); status != 200 || strings.Contains(body, id) {
		t.Errorf("stopped, and still listed: %s", body)
	}
}

func lists(t *testing.T, g *harness.Process, id string) {
	status, body := ask(t, http.MethodGet, g.URL+"/v2/sandboxes", "")
	var items []struct {
		SandboxID, TemplateID, State, StartedAt string
		CPUCount, MemoryMB                      float64
	}
	if err := json.Unmarshal([]byte(body), &items); err != nil || status != 200 || len(items) != 1 ||
		items[0].SandboxID != id || items[0].State != "running" || items[0].TemplateID != "python:3.11" || items[0].MemoryMB != 1024 {
		t.Errorf("%d %s", status, body)
	}
}

// reachesPorts: envd's port and another one, neither of which the record maps.
func reachesPorts(t *testing.T, g *harness.Process, id string) {
	if status, body := ask(t, http.MethodGet, g.URL+"/health", "", "E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49983"); status != 204 {
		t.Errorf("envd: %d %s", status, body)
	}
	status, body := ask(t, http.MethodGet, g.URL+"/x", "", "E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "8000")
	if status != 502 || !strings.Contains(body, "port is not open") {
		t.Errorf("a closed port: %d %s", status, body)
	}
	for _, port := range []string{"22", "22555"} {
		if status, body := ask(t, http.MethodGet, g.URL+"/", "", "E2b-Sandbox-Id", id, "E2b-Sandbox-Port", port); status < 400 || status > 499 {
			t.Errorf("port %s: %d %s", port, status, body)
		}
	}
}

// saysWhatIsNotOffered: this ROCK has nothing of E2B's API. No SDK may take its 404 for the death of a sandbox.
func (s *stage) saysWhatIsNotOffered(t *testing.T, g *harness.Process, id string) {
	rocks := harness.Binary(t, s.config("keys off", "mode rock"))
	for _, c := range []struct{ base, method, path, body string }{
		{g.URL, http.MethodPost, "/sandboxes", `{"templateID":"python:3.11","timeout":60}`},
		{g.URL, http.MethodGet, "/sandboxes/" + id, ""},
		{g.URL, http.MethodDelete, "/sandboxes/" + id, ""},
		{g.URL, http.MethodPost, "/sandboxes/" + id + "/timeout", `{"timeout":60}`},
		{g.URL, http.MethodPost, "/sandboxes/" + id + "/connect", `{"timeout":60}`},
		{rocks.URL, http.MethodGet, "/files?path=/etc/hostname", ""},
		{rocks.URL, http.MethodPost, "/filesystem.Filesystem/Stat", `{"path":"/"}`},
	} {
		status, body := ask(t, c.method, c.base+c.path, c.body, "E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49983")
		if status != 501 || !strings.Contains(body, "is not offered by this deployment") || strings.Contains(body, "detail") {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
}
