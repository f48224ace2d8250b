package incidents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/document"
)

const (
	pageFile     = "../../docs/operations.md"
	recipesBegin = "<!-- recipes: written by go test ./integration/incidents -run TestThePage -update -->"
	recipesEnd   = "<!-- end of recipes -->"
)

func TestThePageHasTheRecipesThatAreTried(t *testing.T) {
	document.Part(t, pageFile, recipesBegin, recipesEnd, written())
}

// written are the recipes as the page has them.
func written() string {
	var b strings.Builder
	for _, r := range recipes {
		fmt.Fprintf(&b, "\n### %s\n\nUsers say: %s\n\n", strings.ToUpper(r.incident[:1])+r.incident[1:], r.users)
		for _, s := range r.signs {
			fmt.Fprintf(&b, "- %s\n", s.look)
		}
		fmt.Fprintf(&b, "\n%s\n", r.cure)
	}
	b.WriteString("\n")
	return b.String()
}

// What users say is what the gateway tells them, so that its text leads here.
func TestWhatUsersSayIsInTheREADME(t *testing.T) {
	readme := page(t, "../README.md")
	for _, r := range recipes {
		for i, text := range strings.Split(r.users, "`") {
			if i%2 == 1 && !strings.Contains(readme, text) {
				t.Errorf("%s: %q is not in the README", r.incident, text)
			}
		}
	}
}

// An incident without a recipe, and a recipe that no incident tries, are worth
// nothing.
func TestEveryIncidentHasARecipeAndEveryRecipeAnIncident(t *testing.T) {
	known := map[string]int{}
	for _, i := range incidents {
		known[i.name]++
	}
	for _, r := range recipes {
		known[r.incident] += 2
		if r.users == "" || r.cure == "" || len(r.signs) == 0 {
			t.Errorf("the recipe of %q is not whole", r.incident)
		}
	}
	for name, n := range known {
		if name != health && n != 3 {
			t.Errorf("%q is not both once", name)
		}
	}
	if len(incidents) != 12 {
		t.Errorf("there are %d incidents", len(incidents)-1)
	}
}
