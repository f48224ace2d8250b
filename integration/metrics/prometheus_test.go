package metrics

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

// prometheus is a real one, with the alert rules, that scrapes a gateway.
type prometheus struct {
	url    string
	exited chan struct{}
	log    string
}

// patience is how long Prometheus may take for something.
const patience = time.Minute

func startPrometheus(t *testing.T, g gateway) *prometheus {
	t.Helper()
	file, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: e2b-gateway, static_configs: [{targets: [%q]}]}
`, file, strings.TrimPrefix(g.URLOf(metricsSite), "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// A port that was free may be taken before Prometheus has it.
	for range 5 {
		if p := tryPrometheus(t, dir, loopback.FreeAddress(t)); p != nil {
			return p
		}
	}
	b, _ := os.ReadFile(filepath.Join(dir, "log"))
	t.Fatalf("Prometheus does not start:\n%s", b)
	return nil
}

// tryPrometheus returns nil if it ends by itself.
func tryPrometheus(t *testing.T, dir, address string) *prometheus {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{url: "http://" + address, exited: make(chan struct{}), log: log.Name()}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
	})
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-p.exited:
			return nil
		case <-time.After(50 * time.Millisecond):
		}
		resp, err := http.Get(p.url + "/-/ready")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return p
		}
	}
	t.Fatal("Prometheus takes too long to start")
	return nil
}

// get asks the HTTP API.
func (p *prometheus) get(t *testing.T, path string, data any) (failure string) {
	t.Helper()
	resp, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != "success" {
		return answer.Error
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		t.Fatal(err)
	}
	return ""
}

// evaluate returns how many series an expression has.
func (p *prometheus) evaluate(t *testing.T, text string) (series int, failure string) {
	t.Helper()
	var data struct{ Result []json.RawMessage }
	failure = p.get(t, "/api/v1/query?query="+url.QueryEscape(text), &data)
	return len(data.Result), failure
}

// something waits until an expression has a series.
func (p *prometheus) something(t *testing.T, e expression, text string) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		n, failure := p.evaluate(t, text)
		switch {
		case failure != "":
			t.Errorf("%s: %s: %s", e.name, text, failure)
			return
		case n > 0:
			return
		case time.Now().After(end):
			t.Errorf("%s: %s has nothing", e.name, text)
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

// An expression that finds nothing where all is well must find it in what it compares.
func TestEveryExpressionFindsSomethingAtARealGateway(t *testing.T) {
	g := startGateway(t)
	p := startPrometheus(t, g)
	p.something(t, expression{name: "two scrapes"}, "count_over_time(e2b_gateway_build_info[1m]) > 1")
	g.call(t)
	for _, e := range everyExpression(t) {
		if _, failure := p.evaluate(t, e.text); failure != "" {
			t.Errorf("%s: %s: %s", e.name, e.text, failure)
			continue
		}
		text := e.text
		if inner, ok := strings.CutPrefix(text, "absent("); ok {
			text = strings.TrimSuffix(inner, ")")
		}
		text = strings.Replace(text, " == 0 and on", " and on", 1)
		if m := comparison.FindStringSubmatch(text); m != nil {
			text = m[1]
		}
		p.something(t, e, text)
	}
}

func TestTheAlertsAreLoadedAndQuietAtAGatewayThatIsWell(t *testing.T) {
	p := startPrometheus(t, startGateway(t))
	var data struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	pending := func() bool {
		if failure := p.get(t, "/api/v1/rules", &data); failure != "" {
			t.Fatal(failure)
		}
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				if r.Health == "unknown" {
					return true
				}
			}
		}
		return len(data.Groups) == 0
	}
	for end := time.Now().Add(patience); pending(); {
		if time.Now().After(end) {
			t.Fatalf("not evaluated: %+v", data)
		}
		<-time.After(100 * time.Millisecond)
	}
	loaded := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			loaded++
			if r.Health != "ok" || r.State == "firing" {
				t.Errorf("%+v", r)
			}
		}
	}
	if want := len(alerts(t)); loaded != want {
		t.Errorf("%d rules are loaded, want %d", loaded, want)
	}
}
