package module

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// patient is a health whose clusters are what a test says.
type patient struct {
	*health
	looks      atomic.Int32
	state      map[string][3]bool // registry, admin, proxy
	remembered bool
}

func newPatient(clusters ...string) *patient {
	p := &patient{state: map[string][3]bool{}}
	p.health = &health{remembers: func() bool { return p.remembered }, cover: time.Minute, wasReady: new(atomic.Bool)}
	for _, name := range clusters {
		p.clusters = append(p.clusters, clusterHealth{
			name: name,
			registry: func(context.Context) error {
				p.looks.Add(1)
				if !p.state[name][0] {
					return errors.New("down")
				}
				return nil
			},
			admin:    func(context.Context) bool { return p.state[name][1] },
			proxy:    func(context.Context) bool { return p.state[name][2] },
			answered: new(atomic.Pointer[time.Time]),
		})
	}
	return p
}

// now is what is answered once what was found is too old.
func (p *patient) now(strict bool) Health {
	<-time.After(healthEvery)
	return p.ready(context.Background(), strict)
}

func (h Health) String() string {
	s := fmt.Sprint(h.Ready)
	for _, r := range h.Reasons {
		s += fmt.Sprintf(" %s(%s)", r.Reason, r.Cluster)
		if r.Covered {
			s += "+"
		}
	}
	return s
}

var (
	well     = [3]bool{true, true, true}
	noRedis  = [3]bool{false, true, true}
	noAdmin  = [3]bool{true, false, true}
	noProxy  = [3]bool{true, true, false}
	allGone  = [3]bool{}
	degraded = "true registry_unreachable(a) admin_unreachable(a) proxy_unreachable(a)"
)

func TestAGatewayBecomesReadyWithTheFirstWholeCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient("a", "b")
		for _, half := range [][3]bool{allGone, noRedis, noAdmin, noProxy} {
			p.state["a"], p.state["b"] = half, half
			if got := p.now(false); got.Ready || got.Reasons[0].Reason != reasonStarting || len(got.Reasons) < 3 {
				t.Errorf("%v: %v", half, got)
			}
		}
		// Halves of two clusters are not a whole one.
		p.state["a"], p.state["b"] = noAdmin, noProxy
		if got := p.now(false); got.Ready {
			t.Errorf("two halves: %v", got)
		}
		p.state["b"] = well
		if got := p.now(false); got.String() != "true admin_unreachable(a)" || !got.Degraded {
			t.Errorf("%v", got)
		}
	})
}

// All gateways would be unready at once, and the load balancer's own error means to an
// SDK that its sandbox is gone.
func TestAGatewayThatWasReadyStaysSoWhateverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient("a")
		p.state["a"] = well
		if got := p.now(false); got.String() != "true" || got.Degraded {
			t.Fatal(got)
		}
		p.state["a"] = allGone
		for range 100 {
			if got := p.now(false); got.String() != degraded || !got.Degraded {
				t.Fatal(got)
			}
		}
		p.state["a"] = well
		if got := p.now(false); got.String() != "true" {
			t.Error(got)
		}
	})
}

func TestStrictlyAGatewayIsReadyWhileAClusterCanBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient("a", "b")
		p.state["a"], p.state["b"] = well, well
		p.now(true)
		for _, tc := range []struct {
			a, b       [3]bool
			remembered bool
			want       string
		}{
			{noProxy, well, false, "true proxy_unreachable(a)"},
			{noProxy, noAdmin, false, "false proxy_unreachable(a) admin_unreachable(b)"},
			{noRedis, noAdmin, false, "false registry_unreachable(a) admin_unreachable(b)"},
			{noRedis, noAdmin, true, "true registry_unreachable(a)+ admin_unreachable(b)"},
		} {
			p.state["a"], p.state["b"], p.remembered = tc.a, tc.b, tc.remembered
			if got := p.now(true); got.String() != tc.want {
				t.Errorf("%v, want %s", got, tc.want)
			}
		}
		<-time.After(p.cover) // what is remembered is too old
		if got := p.now(true); got.String() != "false registry_unreachable(a) admin_unreachable(b)" {
			t.Error(got)
		}
	})
}

// The routes outlive a reload, and what is known of their registry with them.
func TestWhatIsCoveredStaysSoOverAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient("a")
		p.state["a"], p.remembered = well, true
		p.now(true)
		p.state["a"] = noRedis
		p.health = &health{clusters: p.clusters, remembers: p.remembers, cover: p.cover, wasReady: p.wasReady}
		if got := p.now(true); got.String() != "true registry_unreachable(a)+" {
			t.Error(got)
		}
	})
}

func TestNobodyAsksSoOftenThatTheClustersNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient("a")
		for _, tc := range []struct {
			state [3]bool
			every time.Duration
		}{{noProxy, healthSoon}, {well, healthEvery}} {
			p.state["a"] = tc.state
			p.now(false)
			before := p.looks.Load()
			for range 10 {
				<-time.After(tc.every / 100)
				p.ready(t.Context(), false)
			}
			if n := p.looks.Load() - before; n != 0 {
				t.Errorf("%v: %d looks in a tenth of %v", tc.state, n, tc.every)
			}
			<-time.After(tc.every)
			p.ready(t.Context(), false)
			if n := p.looks.Load() - before; n != 1 {
				t.Errorf("%v: %d looks after %v", tc.state, n, tc.every)
			}
		}
	})
}

// Whoever asks may leave, or be in a hurry: the next one wants to know.
func TestALookEndsInTimeAndNotWithWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient("a")
		p.clusters[0].registry = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		p.state["a"] = well
		gone, leave := context.WithCancel(t.Context())
		leave()
		begun := time.Now()
		got := p.ready(gone, false)
		if took := time.Since(begun); took != healthPatience || got.String() != "false starting() registry_unreachable(a)" {
			t.Errorf("%v after %v", got, took)
		}
	})
}

func TestEveryReasonIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{reasonDraining, reasonStarting, reasonReplaced, reasonRegistry, reasonAdmin, reasonProxy} {
		if !strings.Contains(string(page), "\n| `"+reason+"` |") {
			t.Errorf("docs/health.md says nothing of %s", reason)
		}
	}
}
