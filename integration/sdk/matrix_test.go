package sdk

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// silence is how long the silent command says nothing. Shorten it for a quick run: -silence 5s.
var silence = flag.Duration("silence", 3*time.Minute, "how long the silent command says nothing")

// transport is how a client reaches the gateway.
type transport string

const (
	// cleartextH1 is http://, HTTP/1.1 without TLS.
	cleartextH1 transport = "h1"
	// tlsH1 is https:// with ALPN offering http/1.1 only.
	tlsH1 transport = "tls-h1"
	// tlsH2 is https:// with ALPN offering h2 before http/1.1.
	tlsH2 transport = "tls-h2"
)

var transports = []transport{cleartextH1, tlsH1, tlsH2}

// silentTransports are those over which a silent stream could be cut in a way of its own.
var silentTransports = []transport{cleartextH1, tlsH2}

// profile is what the deployment behind the gateway can do; the programs know it by the same word.
type profile string

const (
	// onROCK is ROCK's own E2B routes: output at the end of a command, no stdin, PTY, process list, rename, remove, watch.
	onROCK profile = "rock"
	// onEnvd is the full envd protocol.
	onEnvd profile = "envd"
)

// TestMain raises the number of tests that run at once, unless the caller chose it: the programs spend most of their time
// waiting for commands that sleep, so one for each processor leaves the processors idle.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "6"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// TestOutputArrivesWhileTheCommandGoesOn runs one program at a time, before all others: it is about 50 milliseconds.
// Field report B01.
func TestOutputArrivesWhileTheCommandGoesOn(t *testing.T) {
	for _, over := range transports {
		t.Run(string(over), func(t *testing.T) {
			for _, c := range client.All {
				t.Run(c.Name, func(t *testing.T) {
					d := startDeployment(t, over, onEnvd)
					start(t, c, d, time.Minute, "live").report(t, liveChecks)
					checkProtocols(t, c, over, d.Protocols())
				})
			}
		})
	}
}

// everyCell runs a test for each client over each transport, each against a deployment of its own so that the requests
// the deployment counts are this client's, and then checks that the transport was the one the cell is named after.
func everyCell(t *testing.T, as profile, test func(*testing.T, client.Client, transport, Deployment)) {
	for _, over := range transports {
		t.Run(string(over), func(t *testing.T) {
			for _, c := range client.All {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					d := startDeployment(t, over, as)
					test(t, c, over, d)
					checkProtocols(t, c, over, d.Protocols())
				})
			}
		})
	}
}

// checkProtocols fails the test if the requests counted by protocol are not those that the transport stands for.
func checkProtocols(t *testing.T, c client.Client, over transport, counted map[string]int) {
	t.Helper()
	h1, h2 := counted["HTTP/1.1"], counted["HTTP/2.0"]
	switch {
	case h1+h2 == 0:
		t.Errorf("no request counted: %v", counted)
	case len(counted) > 2, over != tlsH2 && h2 > 0, over == tlsH2 && h2 == 0:
		t.Errorf("requests by protocol over %s: %v", over, counted)
	case over == tlsH2 && h1 > 0 && !c.DownloadsOverHTTP1:
		t.Errorf("%d of %d requests over %s came by HTTP/1.1", h1, h1+h2, over)
	}
}

func TestWholeLifeOfASandboxOnROCK(t *testing.T) {
	t.Parallel()
	everyCell(t, onROCK, func(t *testing.T, c client.Client, over transport, d Deployment) {
		start(t, c, d, 5*time.Minute, "life", lifeArguments(c, over, onROCK)...).report(t, lifeChecks)
	})
}

func TestWholeLifeOfASandboxOnEnvd(t *testing.T) {
	t.Parallel()
	everyCell(t, onEnvd, func(t *testing.T, c client.Client, over transport, d Deployment) {
		start(t, c, d, 5*time.Minute, "life", lifeArguments(c, over, onEnvd)...).report(t, slices.Concat(lifeChecks, envdChecks))
	})
}

// lifeArguments lets each client transfer the full sizes once: over HTTP/2, where flow control has the most to do, unless
// that is more than the client can do in the time; and on ROCK, whose way of sending output all at once is the harder one.
func lifeArguments(c client.Client, over transport, as profile) []string {
	full := tlsH2
	if c.Quadratic {
		full = cleartextH1
	}
	args := []string{"--profile", string(as)}
	if over != full || as != onROCK {
		args = append(args, "--quick")
	}
	return args
}

func TestCallsOnASandboxThatIsGoneRaiseTheRightClass(t *testing.T) {
	t.Parallel()
	everyCell(t, onROCK, func(t *testing.T, c client.Client, _ transport, d Deployment) {
		start(t, c, d, time.Minute, "gone").report(t, goneChecks)
	})
}

// Contract checklist 39.
//
// TestSilentCommandSurvives starts all clients at once: they only wait. Field report C01.
func TestSilentCommandSurvives(t *testing.T) {
	t.Parallel()
	for _, over := range silentTransports {
		t.Run(string(over), func(t *testing.T) {
			t.Parallel()
			d := startDeployment(t, over, onEnvd)
			seconds := strconv.Itoa(int(silence.Seconds()))
			running := make([]*program, len(client.All))
			for i, c := range client.All {
				running[i] = start(t, c, d, *silence+time.Minute, "silent", "--seconds", seconds)
			}
			for i, c := range client.All {
				t.Run(c.Name, func(t *testing.T) { running[i].report(t, silentChecks) })
			}
		})
	}
}
