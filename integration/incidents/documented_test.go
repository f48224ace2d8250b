package incidents

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caddys are the fields that every line of a log, and of an access log, has from
// Caddy.
var caddys = []string{"level", "ts", "logger", "msg", "request", "bytes_read", "user_id", "duration", "size", "status", "resp_headers"}

// Incidents show more of the log and the metrics than anything else does: whatever
// they show is documented.
func documented(t *testing.T, e evidence) {
	t.Helper()
	metrics, logs := page(t, "metrics.md"), page(t, "logs.md")
	for key := range e.after {
		found := selectorForm.FindStringSubmatch(key)
		if found == nil || !strings.HasPrefix(found[1], "e2b_gateway_") {
			continue
		}
		row := rowOf(metrics, found[1])
		if row == "" {
			t.Errorf("docs/metrics.md has no row for %s", found[1])
		}
		for _, label := range labelForm.FindAllStringSubmatch(found[2], -1) {
			if label[1] != "le" && !strings.Contains(row, "`"+label[1]) {
				t.Errorf("docs/metrics.md has no label %s of %s", label[1], found[1])
			}
		}
	}
	for _, line := range e.log {
		logger, _ := line["logger"].(string)
		if logger != "http.log.access" && logger != "http.handlers.e2b" && logger != "e2b" {
			continue
		}
		for field := range line {
			if !slices.Contains(caddys, field) && !strings.Contains(logs, "`"+field+"`") {
				t.Errorf("docs/logs.md has no field %s, which is in %q of %s", field, line["msg"], logger)
			}
		}
	}
}

// rowOf is the row of a table that begins with a metric, whichever of the series
// of a histogram it is.
func rowOf(page, metric string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count"), "_sum")
	return regexp.MustCompile("(?m)^\\| `(?:" + metric + "|" + base + ")`.*$").FindString(page)
}

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
