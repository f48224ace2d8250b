package handlers

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// chart is a gateway whose registry tells ports only when it is asked for them. Port 3000
// of the sandbox, and envd's, are an app.
type chart struct {
	*rig
	asked atomic.Int32
	state routing.State // that is told with the ports
	err   error
}

func newChart(t *testing.T, change ...func(*Options)) *chart {
	t.Helper()
	g := &chart{rig: newRig(t, change...), state: routing.StateRunning}
	g.proxy = answerWith(200, "text/plain", "the app")
	at, err := netip.ParseAddrPort(g.cluster.Proxy.Candidates("")[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	g.cluster.AllowedHosts = []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}
	g.registry.route = &routing.Route{State: routing.StateRunning, Lifecycle: "life1", Host: at.Addr(), PortsUnknown: true}
	g.registry.mapping = func(route *routing.Route) (*routing.Route, error) {
		g.asked.Add(1)
		with := *route
		with.State, with.PortsUnknown = g.state, false
		with.Ports = routing.PortsOf(map[uint16]uint16{3000: at.Port(), routing.EnvdPort: at.Port()})
		return &with, g.err
	}
	return g
}

func (g *chart) visit(t *testing.T, port int) (reply, Outcome) {
	t.Helper()
	r := g.send(t, "GET", "/", "", "", "E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", fmt.Sprint(port))
	return r, <-g.outcomes
}

func TestPortsAreAskedForOnceByTheCallsThatNeedThem(t *testing.T) {
	g := newChart(t)
	if r := g.call(t, "POST", stat, unary, "{}", "E2b-Sandbox-Id", "a"); g.asked.Load() != 0 {
		t.Errorf("a call to envd through ROCK asked: %d", r.status)
	}
	for range 3 {
		if r, out := g.visit(t, 3000); r.status != 200 || r.body != "the app" || g.asked.Load() != 1 {
			t.Errorf("%s, %v after %d questions", shown(r), out.End, g.asked.Load())
		}
	}
}

func TestNobodyAsksForPortsThatCannotBeReachedAnyway(t *testing.T) {
	for name, shut := range map[string]func(*routing.Cluster){
		"no addresses are allowed": func(c *routing.Cluster) { c.AllowedHosts = nil },
		"other ports are":          func(c *routing.Cluster) { c.Ports = []routing.PortRange{{First: 8080, Last: 8080}} },
	} {
		g := newChart(t)
		shut(g.cluster)
		if r, out := g.visit(t, 3000); out.End != cause.PortClosed || g.asked.Load() != 0 {
			t.Errorf("%s: %s, %d questions", name, shown(r), g.asked.Load())
		}
	}
}

// To ask for the ports is to use the sandbox.
func TestAskingWhetherASandboxRunsIsNoUseWhereItsPortsAreDialledAnyway(t *testing.T) {
	for unmapped, want := range map[routing.Unmapped]int32{routing.UnmappedDial: 0, routing.UnmappedTunnel: 1} {
		g := newChart(t)
		g.cluster.Mode, g.cluster.Unmapped = routing.ModeDirect, unmapped
		g.call(t, "GET", "/health", "", "")
		if g.asked.Load() != want {
			t.Errorf("%d: %d questions", unmapped, g.asked.Load())
		}
	}
}

func TestWithoutAnAnswerToTheQuestionForPortsThreeAnswersAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		now  func(*chart) // what the registry says next
		want cause.Cause
	}{
		"it still runs":   {func(*chart) {}, cause.RegistryUnavailable},
		"it is gone":      {func(g *chart) { g.registry.say(0, routing.ErrGone) }, cause.SandboxGone},
		"it is paused":    {func(g *chart) { g.registry.say(routing.StatePaused, nil) }, cause.SandboxPaused},
		"nobody can tell": {func(g *chart) { g.registry.say(0, routing.ErrUnavailable) }, cause.RegistryUnavailable},
	} {
		for _, failure := range []error{routing.ErrUnavailable, routing.ErrGone} {
			g := newChart(t)
			g.registry.mapping = func(*routing.Route) (*routing.Route, error) {
				tc.now(g)
				return nil, failure
			}
			if r, out := g.visit(t, 3000); out.End != tc.want || g.upstreamHits.Load() != 0 {
				t.Errorf("%s, after %v: %v, %s", name, failure, out.End, shown(r))
			}
		}
	}
}

func TestASandboxWhosePortsTellThatItIsStartingIsNotReached(t *testing.T) {
	for state, want := range map[routing.State]cause.Cause{routing.StateStarting: cause.SandboxStarting, routing.StateFailed: cause.SandboxFailed} {
		g := newChart(t, func(o *Options) { o.ReadyTimeout = -1 })
		g.state = state
		if r, out := g.visit(t, 3000); out.End != want || r.status == http.StatusOK || g.upstreamHits.Load() != 0 {
			t.Errorf("%v: %v, %s", state, out.End, shown(r))
		}
	}
}

func TestASandboxWhosePortsTellThatItIsStartingIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		n.cluster.Mode, n.cluster.AllowedHosts = routing.ModeDirect, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		begun := time.Now()
		n.registry.route = &routing.Route{State: routing.StateRunning, Lifecycle: "life1", PortsUnknown: true}
		n.registry.mapping = func(route *routing.Route) (*routing.Route, error) {
			with := *route
			with.PortsUnknown, with.State = false, routing.StateStarting
			if time.Since(begun) > 20*time.Second {
				with.State, with.Host, with.Ports = routing.StateRunning, netip.MustParseAddr("10.0.0.5"), routing.PortsOf(map[uint16]uint16{routing.EnvdPort: 31003})
			}
			return &with, nil
		}
		n.wantEnd(t, cause.OK, 20*time.Second, 22*time.Second)
		if to := (<-n.sent).URL.Host; len(n.sent) > 0 || to == "" {
			t.Errorf("sent to %s, and %d times more", to, len(n.sent))
		}
		n.wantNothingLeft(t)
	})
}
