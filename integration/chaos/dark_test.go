package chaos

import (
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/caddy-e2b/gateway/integration/rock"
)

// In the dark, packets are lost: no FIN and no RST tells anybody anything. The kernel drops them by rules of its own network namespace,
// in which the whole suite runs then; see main_test.go.

// rules are two sets of ports: what is sent to one of the first is lost, and what one of the second sends.
const rules = `
table ip chaos {
	set to { type inet_service; }
	set from { type inet_service; }
	chain output {
		type filter hook output priority 0;
		tcp dport @to drop
		tcp sport @from drop
	}
}
`

func nft(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("nft", args...).CombinedOutput(); err != nil {
		t.Fatalf("nft %v: %v: %s", args, err, out)
	}
}

// lose loses what goes to an address, or comes from it, or both.
func lose(w *world, address string, s step) func() {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return func() {} // the sandbox has none any more
	}
	sets := [][]string{{"to"}, {"from"}, {"to", "from"}}[s.b%3]
	for _, set := range sets {
		if w.lost[set+port]++; w.lost[set+port] == 1 {
			nft(w, "add", "element", "ip", "chaos", set, fmt.Sprintf("{ %s }", port))
		}
	}
	return func() {
		for _, set := range sets {
			if w.lost[set+port]--; w.lost[set+port] == 0 {
				nft(w, "delete", "element", "ip", "chaos", set, fmt.Sprintf("{ %s }", port))
			}
		}
	}
}

func inTheDark(k kind) bool { return k.special == dark }

var darkFaults = []fault{
	{name: "packets of a sandbox are lost", fits: inTheDark, weight: 8, once: true, begin: func(w *world, s step) func() {
		return lose(w, w.rock.Sandbox(w.pick(s)).Addr(), s)
	}},
	{name: "packets of Redis are lost", fits: inTheDark, weight: 4, once: true, begin: func(w *world, s step) func() {
		return lose(w, w.store.wire.address, s)
	}},
	{name: "packets of the admin role are lost", fits: inTheDark, weight: 2, once: true, begin: func(w *world, s step) func() {
		return lose(w, w.roles[rock.Admin].address, s)
	}},
	{name: "a sandbox's host is lost, and the sandbox killed", fits: inTheDark, weight: 6, once: true, begin: func(w *world, s step) func() {
		id := w.pick(s)
		w.ledger.doubt(id)
		heal := lose(w, w.rock.Sandbox(id).Addr(), s)
		w.tasks.Go(func() { _ = w.rock.Sandbox(id).Stop(rock.Deleted) })
		return heal
	}},
}
