package module_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/module"
)

var update = flag.Bool("update", false, "write the tables of docs that are made of those in code")

const (
	adminDocument = "../docs/admin.md"
	routesBegin   = "<!-- routes: made by go test ./module -run AdminDocument -update -->\n"
	routesEnd     = "<!-- /routes -->\n"
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
	text, err := os.ReadFile(adminDocument)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), routesBegin)
	routes, after, ok2 := strings.Cut(rest, routesEnd)
	if !ok || !ok2 {
		t.Fatal("docs/admin.md has no place for the routes")
	}
	if *update {
		if err := os.WriteFile(adminDocument, []byte(before+routesBegin+routesDocument()+routesEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if routes != routesDocument() {
		t.Error("docs/admin.md does not have the routes that there are: go test ./module -run AdminDocument -update")
	}
	for _, step := range handlers.StepNames {
		if !strings.Contains(after, "\n| `"+string(step)+"` |") {
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
