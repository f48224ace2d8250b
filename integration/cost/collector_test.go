package cost

import (
	"bytes"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// The binary gives a small heap headroom, unless the environment has a word on it.
func TestTheEnvironmentHasTheLastWordOnTheCollector(t *testing.T) {
	for inEnvironment, least := range map[string]int{"": 200, "70": 70, "100": 100} {
		t.Run(inEnvironment, func(t *testing.T) {
			t.Setenv("GOGC", inEnvironment)
			p := harness.Binary(t, ":80 {\n\trespond ok\n}\n")
			resp, err := http.Get(p.AdminURL() + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var b bytes.Buffer
			if _, err := b.ReadFrom(resp.Body); err != nil {
				t.Fatal(err)
			}
			percent := regexp.MustCompile(`(?m)^go_gc_gogc_percent (\d+)$`).FindSubmatch(b.Bytes())
			if percent == nil {
				t.Fatal("the percentage is not told")
			}
			got, _ := strconv.Atoi(string(percent[1]))
			if inEnvironment == "" && got < least || inEnvironment != "" && got != least {
				t.Errorf("it is %d", got)
			}
		})
	}
}
