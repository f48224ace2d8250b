package documented

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// Each placeholder of docs/logs.md has the value that the field beside it has, in
// the same line of a running gateway, and each is there.
func TestEveryPlaceholderIsWhatItsFieldIs(t *testing.T) {
	var names []string
	var appended strings.Builder
	for _, found := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `\\{http\\.e2b\\.([a-z_]+)\\}`").FindAllStringSubmatch(page(t, "docs/logs.md"), -1) {
		if found[1] != found[2] {
			t.Errorf("the field %s has the placeholder %s", found[1], found[2])
		}
		names = append(names, found[1])
		fmt.Fprintf(&appended, "\tlog_append same_%s {http.e2b.%s}\n", found[1], found[1])
	}
	if len(names) < 9 {
		t.Fatalf("only %d placeholders were found", len(names))
	}
	gateway := inprocess.Start(t, strings.Replace(anywhere, ":80 {\n", ":80 {\n\tlog\n"+appended.String(), 1))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+"/process.Process/List", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "E2b-Sandbox-Id": {"one"}, "E2b-Sandbox-Port": {"49983"}}
	resp, err := gateway.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	line := accessLine(t, gateway)
	for _, name := range names {
		field, ok := line[name]
		if !ok {
			t.Errorf("the line has no field %s", name)
		}
		if same := line["same_"+name]; fmt.Sprint(same) != fmt.Sprint(field) {
			t.Errorf("%s: the field is %v, the placeholder %v", name, field, same)
		}
	}
	if line["end"] == "ok" || line["sandbox_id"] != "one" {
		t.Errorf("the line is of something else: %v", line)
	}
}

// accessLine waits for the one line of the access log: it is written after the
// answer.
func accessLine(t *testing.T, gateway *harness.Gateway) map[string]any {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		for text := range strings.Lines(gateway.Logs()) {
			line := map[string]any{}
			if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == "handled request" {
				return line
			}
		}
		select {
		case <-deadline.C:
			t.Fatal("there is no line in the access log")
		case <-poll.C:
		}
	}
}
