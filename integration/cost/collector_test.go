package cost

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// The binary collects memory half as often as Go by default, and as often as the
// environment says.
func TestTheEnvironmentHasTheLastWordOnTheCollector(t *testing.T) {
	for inEnvironment, want := range map[string]string{"": "200", "70": "70", "100": "100"} {
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
			if !strings.Contains(b.String(), "\ngo_gc_gogc_percent "+want+"\n") {
				t.Errorf("not %s", want)
			}
		})
	}
}
