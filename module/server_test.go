package module_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// Contract checklist 65, field report C05: the SDK's unused connections must
// not outlive the server's.
func TestUnusedConnectionsAreKeptLongerThanClientsKeepThem(t *testing.T) {
	for options, want := range map[string]time.Duration{
		"": 11 * time.Minute,
		"servers {\n timeouts {\n idle 7m\n }\n }\n": 7 * time.Minute,
	} {
		t.Run(want.String(), func(t *testing.T) {
			inprocess.Start(t, "{\n"+options+clusterOf("http://127.0.0.1:1", staticSandbox)+"}\n:8080 {\n\te2b\n}\n")
			app, err := caddy.ActiveContext().AppIfConfigured("http")
			if err != nil {
				t.Fatal(err)
			}
			for name, server := range app.(*caddyhttp.App).Servers {
				if got := time.Duration(server.IdleTimeout); got != want {
					t.Errorf("server %s keeps unused connections for %v, want %v", name, got, want)
				}
			}
		})
	}
}

// Contract checklist 34: Caddy drops headers with underscores, which the SDKs
// send and nobody needs, and refuses no request for them.
func TestHeadersWithUnderscoresDoNoHarm(t *testing.T) {
	rock := newRock(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	g := inprocess.Start(t, "{\n"+clusterOf(rock, staticSandbox)+"}\n:8080 {\n\te2b\n}\n")
	r := ask(t.Context(), g.URL, "known", "/health")
	r.Header["lang_version"] = []string{"3.11.7"}
	r.Header["sdk_runtime"] = []string{"python"}
	resp, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("%d", resp.StatusCode)
	}
}
