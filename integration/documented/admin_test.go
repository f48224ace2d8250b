package documented

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/integration/harness"
	_ "github.com/caddy-e2b/gateway/module"
)

const anywhere = `{
	e2b {
		keys off
		cluster test {
			admin http://127.0.0.1:1
			proxy http://127.0.0.1:1
		}
	}
}
:80 {
	e2b
}
`

// A running gateway is asked with every method: what it does not refuse is
// documented, with its method.
func TestEveryAdminRouteIsDocumented(t *testing.T) {
	info, err := caddy.GetModule("admin.api.e2b")
	if err != nil {
		t.Fatal(err)
	}
	gateway := harness.Binary(t, anywhere)
	documented := page(t, "docs/admin.md")
	for _, route := range info.New().(caddy.AdminRouter).Routes() {
		path := strings.TrimSuffix(route.Pattern, "{$}") // a pattern's word for: and nothing behind
		var answered []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			r, err := http.NewRequestWithContext(t.Context(), method, gateway.AdminURL()+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusMethodNotAllowed {
				answered = append(answered, method)
			}
		}
		if len(answered) == 0 {
			t.Errorf("%s answers no method", path)
		}
		for _, method := range answered {
			if !slices.ContainsFunc([]string{method + " " + path, method + "` `" + path}, func(text string) bool { return strings.Contains(documented, "`"+text) }) {
				t.Errorf("docs/admin.md has no `%s %s`", method, path)
			}
		}
	}
}
