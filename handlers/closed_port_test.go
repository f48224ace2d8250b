package handlers

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// newDirect is a rig that dials the sandbox itself, and fails with err.
func newDirect(t *testing.T, err error) *rig {
	t.Helper()
	g := newRig(t, func(o *Options) { o.Upstream = dialFails{err} })
	g.cluster.Mode = routing.ModeDirect
	g.cluster.AllowedHosts = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	g.registry.route = &routing.Route{
		State: routing.StateRunning, Lifecycle: "l", Host: netip.MustParseAddr("10.0.0.7"), Ports: routing.PortsOf(map[uint16]uint16{49983: 1}),
	}
	return g
}

// Field report A10: envd's port refuses. A command hears of it in its own protocol, and
// nobody hears that the sandbox is dead.
func TestACallOfAPortThatRefusesIsToldSoInItsProtocol(t *testing.T) {
	g := newDirect(t, syscall.ECONNREFUSED)
	if code, message := g.call(t, "POST", start, stream, "").endError(t); code != "aborted" || !strings.Contains(message, "sbx-1 is running but port is not open") {
		t.Errorf("command: %s %s", code, message)
	}
	g.wantEnd(t, cause.PortClosed)
	r := g.call(t, "POST", stat, unary, "{}")
	if code, message := r.connect(t); r.status != 502 || code != "aborted" || !strings.Contains(message, "port is not open") {
		t.Errorf("unary: %d %s", r.status, r.body)
	}
	r = g.call(t, "GET", "/files?path=x", "", "")
	if code, message := r.e2b(t); r.status != 502 || code != 502 || !strings.Contains(message, "port is not open") {
		t.Errorf("file: %d %s", r.status, r.body)
	}
	if r := g.call(t, "GET", "/health", "", ""); r.status != 503 {
		t.Errorf("health: %d %s", r.status, r.body)
	}
}

// A sandbox whose machine says nothing is neither dead nor the fault of the cluster, and
// nothing was done. In no protocol does it hear "unavailable", and nowhere 502.
func TestASandboxThatDoesNotAnswerIsToldSoInTheProtocolOfTheCall(t *testing.T) {
	g := newDirect(t, syscall.EHOSTUNREACH)
	const says = "Sandbox sbx-1 does not answer at its address; nothing was done"
	if code, message := g.call(t, "POST", start, stream, "").endError(t); code != "aborted" || !strings.HasPrefix(message, says) {
		t.Errorf("command: %s %s", code, message)
	}
	g.wantEnd(t, cause.SandboxUnreachable)
	r := g.call(t, "POST", stat, unary, "{}")
	if code, message := r.connect(t); r.status != 503 || r.header.Get("Retry-After") != "1" || code != "aborted" || !strings.HasPrefix(message, says) {
		t.Errorf("unary: %d %v %s", r.status, r.header, r.body)
	}
	for _, path := range []string{"/files?path=x", "/health"} {
		r = g.call(t, "GET", path, "", "")
		if code, message := r.e2b(t); r.status != 503 || r.header.Get("Retry-After") != "1" || code != 503 || !strings.HasPrefix(message, says) {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
	}
}

// Field reports F01 and F04: a machine that is not there has perhaps given its address
// away; a port that refuses, or an app that fails, says nothing of where the sandbox is.
func TestOnlyAMachineThatIsNotThereMakesARouteForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		err       error
		forgotten bool
	}{"a port that refuses": {syscall.ECONNREFUSED, false}, "no such machine": {syscall.EHOSTUNREACH, true}} {
		t.Run(name, func(t *testing.T) {
			g := newDirect(t, tc.err)
			if _, _, err := g.gateway.opt.Routes.Lookup(t.Context(), "sbx-1"); err != nil {
				t.Fatal(err)
			}
			g.registry.say(0, routing.ErrUnavailable) // it tells no more than what is remembered
			g.call(t, "POST", stat, unary, "{}")
			if _, _, err := g.gateway.opt.Routes.Lookup(t.Context(), "sbx-1"); (err != nil) != tc.forgotten {
				t.Errorf("the next call finds %v", err)
			}
		})
	}
	t.Run("an app that fails", func(t *testing.T) {
		g := newRig(t)
		g.proxy = answerWith(500, unary, `{"code":500,"message":"x"}`)
		for range 20 {
			g.call(t, "GET", "/files?path=x", "", "")
		}
		if n := g.registry.lookups(); n != 1 {
			t.Errorf("%d lookups", n)
		}
	})
}
