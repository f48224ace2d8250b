package incidents

import (
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// scrape asks for the metrics, as Prometheus does.
func (w *world) scrape() series {
	w.t.Helper()
	return parseSeries(w.ask("GET", "/metrics", ""))
}

// ask asks the admin endpoint.
func (w *world) ask(method, path, body string) string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// observe gathers what an operator can see, since a scrape and what had been
// logged by then, but for what doctor finds.
func (w *world) observe(before series, written int) evidence {
	w.t.Helper()
	e := evidence{before: before, after: w.scrape()}
	for line := range strings.Lines(w.Logs()[written:]) {
		fields := map[string]any{}
		if json.Unmarshal([]byte(line), &fields) == nil {
			e.log = append(e.log, fields)
		}
	}
	question, err := json.Marshal(map[string]any{"sandbox_id": w.complaint.sandbox, "sandbox_port": w.complaint.port})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(w.ask("POST", "/e2b/explain", string(question))), &e.explained); err != nil {
		w.t.Fatalf("explain: %v", err)
	}
	return e
}

// doctor is what the command finds in the config.
func (w *world) doctor() []finding {
	w.t.Helper()
	w.file("Caddyfile", w.caddyfile())
	var stderr strings.Builder
	cmd := exec.CommandContext(w.t.Context(), harness.Build(w.t), "doctor", "--config", filepath.Join(w.dir, "Caddyfile"), "--json", "--timeout", "5s")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var report struct{ Findings []finding }
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		w.t.Fatalf("doctor: %v, %v\n%s%s", err, jsonErr, out, stderr.String())
	}
	return report.Findings
}
