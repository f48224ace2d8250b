package deploy

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// patience is how long a test waits for what must happen on a busy machine.
const patience = 30 * time.Second

// exit waits for the gateway to exit and returns its error.
func exit(t *testing.T, g *harness.Process, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := g.Wait(ctx)
	if ctx.Err() != nil {
		t.Fatalf("the gateway has not exited after %v", within)
	}
	return err
}

// probe has a connection for each question. A transport that keeps them sometimes dials one more than it uses, when the answer
// before frees its connection just then, and Caddy's admin endpoint waits 6 s for the first request of such a one when it stops.
var probe = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ready is what the admin endpoint says.
func ready(t *testing.T, g *harness.Process) int {
	t.Helper()
	resp, err := probe.Get(g.AdminURL() + "/e2b/ready")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// untilNotReady waits until the gateway has taken notice of a signal.
func untilNotReady(t *testing.T, g *harness.Process) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for ready(t, g) != http.StatusServiceUnavailable {
		select {
		case <-poll.C:
		case <-limit.C:
			t.Fatal("the gateway still says that it is ready")
		}
	}
}

// Contract checklist 66, field reports C04 and N02.
func TestOnExitStreamsEndInTheProtocolAndNotAllAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		over        harness.Transport
		crowd       int
		sdks        []string
		global, e2b string
		grace       time.Duration
	}{
		"grace_period":                {harness.TLS2, 2000, []string{javaScript, python}, "grace_period 16s\n" + wrapper, "", 16 * time.Second},
		"grace_period, HTTP/1.1":      {harness.TLS1, 100, []string{python}, "grace_period 5s\n" + wrapper, "drain_timeout 1h", 5 * time.Second},
		"no grace_period":             {harness.TLS2, 200, nil, wrapper, "drain_timeout 5s", 5 * time.Second},
		"no wrapper":                  {harness.TLS2, 200, nil, "grace_period 5s", "", 5 * time.Second},
		"no wrapper, no grace_period": {harness.TLS2, 100, nil, "", "drain_timeout 5s", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.crowd < 1000 {
				t.Parallel() // after the large one
			}
			d := newDeployment(t)
			g := harness.Binary(t, d.caddyfile(tc.global, tc.e2b, ""), tc.over)
			var sdks []*sdk
			for _, install := range tc.sdks {
				sdks = append(sdks, startSDK(t, install, g))
			}
			crowd := gather(t, g, tc.crowd)
			// Streams of a config that was replaced are drained like the others.
			g.Reload(d.caddyfile(tc.global, tc.e2b+"\ndial_timeout 2s", ""))
			if got := ready(t, g); got != http.StatusOK {
				t.Errorf("before the signal /e2b/ready is %d", got)
			}
			signalled := time.Now()
			g.Signal(syscall.SIGTERM)
			untilNotReady(t, g)
			results := crowd.await(t, tc.grace+patience)
			if err := exit(t, g, patience); err != nil {
				t.Errorf("the gateway exits with %v", err)
			}
			took := time.Since(signalled)
			for _, r := range results {
				if !r.drained() {
					t.Fatalf("a stream ended as %+v", r)
				}
			}
			// Half a second for the process to end and for a busy machine.
			if took > tc.grace+500*time.Millisecond {
				t.Errorf("the gateway took %v of %v", took, tc.grace)
			}
			spread(t, results, signalled, tc.grace)
			for _, s := range sdks {
				want := "SandboxException"
				if strings.HasPrefix(s.name, "js") {
					want = "SandboxError"
				}
				if e := s.next(); e.Event != "error" || e.Class != want || !strings.Contains(e.Message, restarting) {
					t.Errorf("%s: %+v", s.name, e)
				}
			}
		})
	}
}

// spread checks that streams ended over a time, and that no tenth of it saw more
// than a fifth of them. That the gateway ends them evenly is proven with a clock
// of its own (handlers); clients hear of it less evenly on a busy machine.
func spread(t *testing.T, results []result, signalled time.Time, grace time.Duration) {
	t.Helper()
	slices.SortFunc(results, func(a, b result) int { return a.at.Compare(b.at) })
	first, last := results[0].at, results[len(results)-1].at
	if span := last.Sub(first); span < grace/4 || first.Sub(signalled) < grace/4 || last.Sub(signalled) > grace {
		t.Errorf("streams ended from %v to %v after the signal", first.Sub(signalled), last.Sub(signalled))
	}
	var tenths [10]int
	for _, r := range results {
		tenths[min(9, int(10*r.at.Sub(first)/(last.Sub(first)+1)))]++
	}
	t.Logf("streams ended from %v to %v after the signal, by tenths %v", first.Sub(signalled), last.Sub(signalled), tenths)
	for i, n := range tenths {
		if n > len(results)/5 {
			t.Errorf("%d of %d streams ended in tenth %d", n, len(results), i)
		}
	}
}

// Contract checklist 65 and 66.
func TestWorkGoesOnDuringShutdownDelayAndIsRefusedAfterwards(t *testing.T) {
	d := newDeployment(t)
	g := harness.Binary(t, d.caddyfile("shutdown_delay 3s\ngrace_period 4s\n"+wrapper, "", ""), harness.TLS2)
	crowd := gather(t, g, 10)
	h1 := http1(g)
	c := g.DialH2()
	headers := []string{"e2b-sandbox-id", "crowd", "e2b-sandbox-port", "49983", "content-type", connectStream}
	lasting := c.Request("POST", start, "{}", headers...)
	c.Until("the first message", func() bool { return c.Stream(lasting).Body != "" })

	signalled := time.Now()
	g.Signal(syscall.SIGTERM)
	untilNotReady(t, g)
	resp, err := h1.Do(call(g, "GET", "/health", ""))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent || !resp.Close {
		t.Errorf("during shutdown_delay: %d, Connection: close is %t", resp.StatusCode, resp.Close)
	}
	if s := c.Wait(c.Request("GET", "/health", "", headers...)); s.Status != "204" {
		t.Errorf("during shutdown_delay, HTTP/2: %+v", s)
	}

	refused := func() bool {
		s := c.Wait(c.Request("POST", "/filesystem.Filesystem/Stat", "{}", append(headers[:4:4], "content-type", "application/json")...))
		return s.Status == "503"
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !refused() {
		<-poll.C
	}
	if after := time.Since(signalled); after < 3*time.Second {
		t.Errorf("refused %v after the signal", after)
	}
	if s := c.Wait(c.Request("POST", start, "{}", headers...)); s.Status != "200" || !strings.Contains(s.Body, restarting) || !s.Ended {
		t.Errorf("a new stream: %+v", s)
	}
	if c.GoneAway() {
		t.Error("GOAWAY while a stream runs")
	}
	if s := c.Wait(lasting); !strings.Contains(s.Body, restarting) || !s.Ended || s.Reset != nil {
		t.Errorf("the stream that ran ended as %+v", s)
	}
	for _, r := range crowd.await(t, patience) {
		if !r.drained() {
			t.Errorf("a stream ended as %+v", r)
		}
	}
	if err := exit(t, g, patience); err != nil {
		t.Errorf("the gateway exits with %v", err)
	}
}

func TestASecondInterruptEndsAtOnce(t *testing.T) {
	d := newDeployment(t)
	g := harness.Binary(t, d.caddyfile("grace_period 1h\n"+wrapper, "", ""), harness.TLS2)
	gather(t, g, 4)
	g.Signal(os.Interrupt)
	untilNotReady(t, g)
	g.Signal(os.Interrupt)
	var status *exec.ExitError
	if err := exit(t, g, 5*time.Second); !errors.As(err, &status) || status.ExitCode() <= 0 {
		t.Errorf("the gateway exits with %v", err)
	}
}
