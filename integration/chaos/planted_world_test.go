package chaos

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// What is looked for in a whole world is planted in one: a gateway that serves nobody, one that does not come back, and what it may leave
// behind.
func TestAWorldFindsWhatIsPlantedInIt(t *testing.T) {
	harness.AllowFiles(t, 1<<14)
	w := newWorld(t, kinds[0])
	finds := func(wrong []string, what string) {
		t.Helper()
		if !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, what) }) {
			t.Errorf("not found: %q; but %q", what, wrong)
		}
	}
	findsNothing := func(wrong []string) {
		t.Helper()
		if len(wrong) > 0 {
			t.Errorf("found: %q", wrong)
		}
	}

	w.populate(plan{seed: 1, kind: w.kind})
	w.roles[rock.Proxy].refuse()
	finds(w.recovers(300*time.Millisecond), "not served again")
	w.roles[rock.Proxy].heal()
	findsNothing(w.recovers(recovery))
	w.clear(nil)

	// The rehearsal itself heals all wires, so that this one comes back only when the clients have gone.
	w.roles[rock.Proxy].refuse()
	finds(w.rehearse(plan{seed: 2, kind: w.kind, length: 300 * time.Millisecond, workers: 2}), "not served: 503")
	findsNothing(w.rehearse(plan{seed: 3, kind: w.kind, length: 300 * time.Millisecond, workers: 2}))

	g := w.gateways[0]
	for range 2 * slackFiles { // connections that their clients keep
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	finds(w.leaks(300*time.Millisecond), "leak: gateway 0 holds")

	w.populate(plan{seed: 4, kind: w.kind})
	c := call{id: "4-0-1", kind: "run", sandbox: w.names()[0], count: 1000, pause: 20 * time.Millisecond}
	r, _ := c.request(t.Context(), g.url)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	finds(w.leaks(300*time.Millisecond), "leak: 1 requests go on behind the gateways")
}
