package module_test

import (
	"net/http"
	"strings"
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

// Field report N07: a limit that is told of is of no use behind a lower one.
func TestHeadsReachTheLimitThatIsToldOf(t *testing.T) {
	const larger = "servers {\n max_header_size 32KiB\n }\n"
	for name, tc := range map[string]struct {
		servers, limits string
		want            int
	}{
		"nothing":            {"", "", 128 << 10},
		"a limit":            {"", "limits {\n headers 1MiB\n }\n", 2 << 20},
		"a low limit":        {"", "limits {\n headers 1KiB\n }\n", 16 << 10},
		"no limit":           {"", "limits {\n headers off\n }\n", 16 << 10},
		"the server's":       {larger, "", 32 << 10},
		"both, of which one": {larger, "limits {\n headers 1MiB\n }\n", 32 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			e2b := strings.Replace(clusterOf("http://127.0.0.1:1", staticSandbox), "e2b {", "e2b {\n"+tc.limits, 1)
			inprocess.Start(t, "{\n"+tc.servers+e2b+"}\n:8080 {\n\te2b\n}\n")
			app, err := caddy.ActiveContext().AppIfConfigured("http")
			if err != nil {
				t.Fatal(err)
			}
			for name, server := range app.(*caddyhttp.App).Servers {
				if got := server.MaxHeaderBytes; got != tc.want {
					t.Errorf("server %s takes %d bytes, want %d", name, got, tc.want)
				}
			}
		})
	}
}

// Contract checklist 34, field report N06: Caddy drops headers with underscores, which the SDKs
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
