package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/document"
	"github.com/caddy-e2b/gateway/module"
)

const (
	page  = "../../docs/metrics.md"
	begin = "<!-- made by go test ./integration/metrics -update -->"
	end   = "<!-- end -->"
)

// rendered is the table as the page has it.
func rendered() string {
	var b strings.Builder
	b.WriteString("\n| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, m := range module.Metrics() {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(labels, ", "), m.Help)
	}
	b.WriteString("\n### Values of the labels\n\n| label | of | values |\n|---|---|---|\n")
	type line struct{ label, values string }
	of := map[line][]string{}
	var lines []line
	for _, m := range module.Metrics() {
		for _, l := range m.Labels {
			values := l.Of
			if l.Values != nil {
				values = "`" + strings.Join(l.Values, "`, `") + "`"
			}
			at := line{l.Name, values}
			if of[at] == nil {
				lines = append(lines, at)
			}
			of[at] = append(of[at], "`"+strings.TrimPrefix(m.Name, "e2b_gateway_")+"`")
		}
	}
	for _, at := range lines {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", at.label, strings.Join(of[at], ", "), at.values)
	}
	return b.String() + "\n"
}

func TestThePageHasEveryMetricWithItsLabels(t *testing.T) {
	document.Part(t, page, begin, end, rendered())
}

func TestEveryMetricSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range module.Metrics() {
		switch {
		case seen[m.Name], !strings.HasPrefix(m.Name, "e2b_gateway_"):
			t.Errorf("%s is there twice, or has another's name", m.Name)
		case len(m.Help) < 20, !strings.HasSuffix(m.Help, "."), strings.Contains(m.Help, "|"):
			t.Errorf("%s: %q", m.Name, m.Help)
		case m.Type == "counter" != strings.HasSuffix(m.Name, "_total"):
			t.Errorf("%s is a %s", m.Name, m.Type)
		case m.Type == "histogram" && !strings.HasSuffix(m.Name, "_seconds"):
			t.Errorf("%s has no unit", m.Name)
		}
		seen[m.Name] = true
		for _, l := range m.Labels {
			if (l.Values == nil) == (l.Of == "") {
				t.Errorf("%s: label %s has values of the config and of its own, or none", m.Name, l.Name)
			}
		}
	}
}
