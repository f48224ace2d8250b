package metrics

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const (
	rules     = "../../deploy/prometheus/alerts.yaml"
	ruleTests = "../../deploy/prometheus/alerts_test.yaml"
)

// promtool runs Prometheus' own tool and returns what it says.
func promtool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestTheAlertRulesAreValid(t *testing.T) {
	promtool(t, "", "check", "rules", "--lint-fatal", rules)
}

// In promtool's own manner: series go in, and alerts must come out, or none.
func TestTheAlertRulesFireWhenTheyShouldAndNotElse(t *testing.T) {
	promtool(t, "", "test", "rules", ruleTests)
}

func TestEachAlertIsTestedToFireAndToBeQuiet(t *testing.T) {
	b, err := os.ReadFile(ruleTests)
	if err != nil {
		t.Fatal(err)
	}
	tests := string(b)
	for _, a := range alerts(t) {
		if !strings.Contains(tests, "alertname: "+a.name+"}") {
			t.Errorf("%s: no test in which it is quiet", a.name)
		}
		if !strings.Contains(tests, "alertname: "+a.name+"\n        exp_alerts:") {
			t.Errorf("%s: no test in which it fires", a.name)
		}
	}
}

// Prometheus has rules of taste for names, units and types.
func TestTheMetricsAreInPrometheusTaste(t *testing.T) {
	out := promtool(t, ours(startGateway(t).scrape(t)), "check", "metrics")
	if strings.TrimSpace(out) != "" {
		t.Errorf("promtool: %s", out)
	}
}

// ours are the metrics of the gateway, without those of Caddy and Go, which others answer for.
func ours(all string) string {
	var b strings.Builder
	for line := range strings.Lines(all) {
		if strings.Contains(line, "e2b_gateway_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Whoever is woken by an alert looks for its name.
func TestEveryAlertHasARowForWhoeverIsWokenByIt(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		if !strings.Contains(string(page), "`"+a.name+"`") {
			t.Errorf("docs/operations.md has no row for %s", a.name)
		}
	}
}
