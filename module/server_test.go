package module_test

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// Contract checklist 65, field report C05: the SDK's unused connections must
// not outlive the server's.
func TestUnusedConnectionsAreKeptLongerThanClientsKeepThem(t *testing.T) {
	for options, want := range map[string]time.Duration{
		"": 11 * time.Minute,
		"servers {\n timeouts {\n idle 7m\n }\n }\n": 7 * time.Minute,
	} {
		t.Run(want.String(), func(t *testing.T) {
			harness.Start(t, "{\n"+options+clusterOf("http://127.0.0.1:1", staticSandbox)+"}\n:8080 {\n\te2b\n}\n")
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
