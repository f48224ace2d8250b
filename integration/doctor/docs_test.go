package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/document"
	"github.com/caddy-e2b/gateway/module/doctor"
)

const docs = "../../docs/doctor.md"

// page is docs/doctor.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# What the doctor finds

` + "`e2b-gateway doctor --config Caddyfile`" + ` looks at a config and at what it names, and changes nothing; see [commands.md](commands.md).
Below is all that it can find. An **error** keeps users from working or lets others in, a **warning** will one day or in some cases,
a **note** is worth knowing. The ids are stable: ` + "`--json`" + ` has them under ` + "`id`" + `.

This page is written by ` + "`go test ./integration/doctor -run Documented -update`" + `.
`)
	for _, k := range doctor.Kinds {
		fmt.Fprintf(&b, "\n## %s\n\n**%s** (%s). %s\n\nWhat to do: %s\n", k.ID, k.What, k.Severity, k.Why, k.Do)
	}
	return b.String()
}

func TestEveryKindOfFindingIsDocumented(t *testing.T) {
	document.Whole(t, docs, page())
}

// An id is for scripts.
func TestIDsAreDistinctAndPlain(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range doctor.Kinds {
		if seen[k.ID] || strings.Trim(k.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("the id %q", k.ID)
		}
		seen[k.ID] = true
	}
}
