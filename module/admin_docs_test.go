package module_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/integration/document"
	"github.com/caddy-e2b/gateway/module"
)

const (
	adminDocument = "../docs/admin.md"
	routesBegin   = "<!-- routes: made by go test ./module -run AdminDocument -update -->"
	routesEnd     = "<!-- /routes -->"
)

// routesDocument is the table of routes in Markdown.
func routesDocument() string {
	var b strings.Builder
	b.WriteString("\n| route | |\n|---|---|\n")
	for _, r := range module.AdminRoutes() {
		fmt.Fprintf(&b, "| `%s %s` | %s", r.Method, strings.TrimSuffix(r.Path, "{$}"), r.Doc)
		for _, name := range slices.Sorted(maps.Keys(r.Query)) {
			fmt.Fprintf(&b, "<br>`?%s=…`: %s", name, r.Query[name])
		}
		if r.Example != "" {
			fmt.Fprintf(&b, "<br>Body, for example: `%s`", r.Example)
		}
		b.WriteString(" |\n")
	}
	b.WriteByte('\n')
	return b.String()
}

func TestTheAdminDocumentNamesEveryRoute(t *testing.T) {
	page := document.Part(t, adminDocument, routesBegin, routesEnd, routesDocument())
	for _, step := range handlers.StepNames {
		if !strings.Contains(page, "\n| `"+string(step)+"` |") {
			t.Errorf("docs/admin.md does not explain the step %q", step)
		}
	}
}

// What is served and what is in the table must be one, in both directions.
func TestEveryAdminRouteIsServedAndHasAWord(t *testing.T) {
	var a module.Admin
	served := map[string]bool{}
	for _, r := range a.Routes() {
		served[r.Pattern] = true
	}
	seen := map[string]bool{}
	for _, r := range module.AdminRoutes() {
		if r.Doc == "" || seen[r.Method+r.Path] || !served[r.Path] {
			t.Errorf("%s %s: documented %v, served %v, twice %v", r.Method, r.Path, r.Doc != "", served[r.Path], seen[r.Method+r.Path])
		}
		seen[r.Method+r.Path] = true
		for name, doc := range r.Query {
			if doc == "" {
				t.Errorf("%s %s: nothing is said of %s", r.Method, r.Path, name)
			}
		}
	}
	for pattern := range served {
		if pattern != "/e2b/" && !slices.ContainsFunc(module.AdminRoutes(), func(r module.AdminRoute) bool { return r.Path == pattern }) {
			t.Errorf("%s is served and stands in no table", pattern)
		}
	}
}
