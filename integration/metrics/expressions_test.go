package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/module"
)

const dashboard = "../../deploy/grafana/e2b-gateway.json"

// expression is something that Prometheus is asked, and by whom.
type expression struct{ name, text string }

var (
	alertLine  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	folded     = regexp.MustCompile(`(?s)expr: (?:>-\n)?(.*?)\n +(?:for|labels):`)
	comparison = regexp.MustCompile(`^(.*?) (?:==|>|<) [\d.]+$`)
)

// alerts are the expressions of the alert rules. promtool has checked that the file is YAML.
func alerts(t *testing.T) (all []expression) {
	t.Helper()
	b, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	names, texts := alertLine.FindAllStringSubmatch(string(b), -1), folded.FindAllStringSubmatch(string(b), -1)
	if len(names) < 10 || len(names) != len(texts) {
		t.Fatalf("%d names and %d expressions in %s", len(names), len(texts), rules)
	}
	for i := range names {
		all = append(all, expression{names[i][1], strings.Join(strings.Fields(texts[i][1]), " ")})
	}
	return all
}

// panels are the expressions of the dashboard, with what Grafana would put in.
func panels(t *testing.T) (all []expression) {
	t.Helper()
	b, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	filled := strings.NewReplacer("$__rate_interval", "2m", "$instance", ".*", "$cluster", ".*")
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: its id is another's, or it is too wide", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%q lies over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			all = append(all, expression{"panel " + p.Title, filled.Replace(target.Expr)})
		}
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("%q shows nothing", p.Title)
		}
	}
	if len(all) < 30 {
		t.Fatalf("%d expressions in %s", len(all), dashboard)
	}
	return all
}

// questions are the expressions in the documentation.
func questions(t *testing.T) (all []expression) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "## Questions they answer")
	if !ok {
		t.Fatal("no questions")
	}
	for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(table, -1) {
		all = append(all, expression{"docs/metrics.md", strings.ReplaceAll(code[1], `\|`, "|")})
	}
	return all
}

func everyExpression(t *testing.T) []expression {
	t.Helper()
	return slices.Concat(alerts(t), panels(t), questions(t))
}

// What is renamed must not leave a panel empty and an alert silent.
func TestEveryMetricThatIsAskedForExists(t *testing.T) {
	word := regexp.MustCompile(`\b(?:e2b_gateway|caddy|process|go)_[a-z0-9_]+\b`)
	known := map[string]bool{}
	for _, m := range module.Metrics() {
		known[m.Name] = true
		if m.Type == "histogram" {
			known[m.Name+"_bucket"], known[m.Name+"_sum"], known[m.Name+"_count"] = true, true, true
		}
	}
	others := startGateway(t).scrape(t)
	asked := map[string]bool{}
	for _, e := range everyExpression(t) {
		for _, name := range word.FindAllString(e.text, -1) {
			asked[name] = true
			if !known[name] && !strings.Contains(others, "\n"+name) {
				t.Errorf("%s asks for %s, which does not exist", e.name, name)
			}
		}
	}
	for _, m := range module.Metrics() {
		if !asked[m.Name] && !asked[m.Name+"_bucket"] {
			t.Errorf("nobody asks for %s: no panel, no alert and no question in the documentation", m.Name)
		}
	}
}

var labelValues = regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"([^"]*)"`)

// A value that is misspelt matches nothing, for ever.
func TestEveryValueOfALabelThatIsAskedForExists(t *testing.T) {
	values := map[string][]string{}
	for _, m := range module.Metrics() {
		for _, l := range m.Labels {
			values[l.Name] = append(values[l.Name], l.Values...)
		}
	}
	for _, e := range everyExpression(t) {
		for _, pair := range labelValues.FindAllStringSubmatch(e.text, -1) {
			if len(values[pair[1]]) == 0 {
				continue // of the config
			}
			for want := range strings.SplitSeq(pair[2], "|") {
				matches := regexp.MustCompile("^(?:" + want + ")$").MatchString
				if !slices.ContainsFunc(values[pair[1]], matches) {
					t.Errorf("%s: no %s is %q", e.name, pair[1], want)
				}
			}
		}
	}
}
