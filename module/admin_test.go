package module_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/module"
)

func TestOperatorsCanReadTheCountersAtTheAdminEndpoint(t *testing.T) {
	rock := newRock(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	g := harness.Binary(t, "{\n"+clusterOf(rock, staticSandbox)+"}\n:8080 {\n\te2b\n}\n")
	for _, sandbox := range []string{"known", "known", "known", "unknown"} {
		resp, err := g.Client().Do(ask(t.Context(), g.URL, sandbox, "/health"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	resp, err := http.Get(g.AdminURL() + "/e2b/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status module.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if c := status.Cache; c.Hits != 2 || c.Lookups != 2 || c.Found != 1 || c.Gone != 1 || c.Entries != 2 {
		t.Errorf("%+v", c)
	}
	cluster, ok := status.Clusters["default"]
	if !ok || len(cluster.Proxy) != 1 || !cluster.Proxy[0].Up || cluster.Proxy[0].Address != strings.TrimPrefix(rock, "http://") {
		t.Errorf("%+v", status.Clusters)
	}
	// The public listener knows nothing of it.
	public, err := g.Client().Get(g.URL + "/e2b/status")
	if err != nil {
		t.Fatal(err)
	}
	public.Body.Close()
	if public.StatusCode != http.StatusNotFound {
		t.Errorf("the public listener answers %d", public.StatusCode)
	}
}
