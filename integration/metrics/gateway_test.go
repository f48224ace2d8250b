package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// gateway is one in a process of its own, that has served a few calls.
type gateway struct{ *harness.Process }

// metricsSite is where its Caddyfile serves Caddy's metrics, as docs/metrics.md says.
const metricsSite = ":9180"

func startGateway(t *testing.T) gateway {
	t.Helper()
	rock := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(rock.Close)
	g := gateway{harness.Binary(t, fmt.Sprintf(`{
	e2b {
		keys off
		cluster default {
			admin %[1]s
			proxy %[1]s
			registry static {
				sandbox known {
					host 127.0.0.1
				}
			}
		}
	}
}
:8080 {
	e2b
}
%[2]s {
	metrics
}
`, rock.URL, metricsSite))}
	g.call(t)
	return g
}

// call makes calls of either plane that end well and badly.
func (g gateway) call(t *testing.T) {
	t.Helper()
	for _, id := range []string{"known", "unknown", "no id!"} {
		for _, path := range []string{"/health", "/sandboxes/" + strings.ReplaceAll(id, " ", "%20"), "/nothing"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header["E2b-Sandbox-Id"], r.Header["E2b-Sandbox-Port"] = []string{id}, []string{"49983"}
			resp, err := g.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
	}
}

// scrape is what Prometheus gets.
func (g gateway) scrape(t *testing.T) string {
	t.Helper()
	resp, err := g.Client().Get(g.URLOf(metricsSite) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s: %v", resp.StatusCode, b, err)
	}
	return string(b)
}
