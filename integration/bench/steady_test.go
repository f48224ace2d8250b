package bench

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	// pace is how many calls, or messages, begin in a second.
	pace = 1000
	// pacedTurn is how long a turn at that pace is.
	pacedTurn = 2 * time.Second
	// outage is how long Redis does not answer: longer than a route is cached.
	outage = 12 * time.Second
	// recovery is how long the gateway then has to find Redis again: it tries every 5 s.
	recovery = 6 * time.Second
	// outages is how many of them there are of each kind, if there are as many rounds.
	outages = 5
	// pacedSandboxes is how many sandboxes are called, one after the other, each
	// by a client of its own.
	pacedSandboxes = 100
	// noise is how much two measurements of the same may differ.
	noise = 1.25
)

// latencies are those of one turn, in seconds.
type latencies []float64

func (l latencies) p50() float64 { return quantile(l, 0.5) }
func (l latencies) p99() float64 { return quantile(l, 0.99) }

// spread is how much longer the slow ones took.
func (l latencies) spread() float64 { return l.p99() / l.p50() }

// overTurns is the median of what turns have of something.
func overTurns(turns []latencies, has func(latencies) float64) float64 {
	each := make([]float64, len(turns))
	for i, l := range turns {
		each[i] = has(l)
	}
	return median(each)
}

// latencyRow is a line of a table: turns, and how much more those took than the ones without a proxy.
func latencyRow(name string, turns, without []latencies) []string {
	p50, p99 := overTurns(turns, latencies.p50), overTurns(turns, latencies.p99)
	return []string{name, micros(p50), micros(p99), times(overTurns(turns, latencies.spread)),
		micros(p50 - overTurns(without, latencies.p50)), micros(p99 - overTurns(without, latencies.p99))}
}

var latencyHead = []string{"", "p50", "p99", "p99 over p50", "added p50", "added p99"}

// steady measures the latency of calls that do not wait for each other.
func steady(s *scene, r *report) {
	defer s.join()()
	all := s.start(harness.Cleartext, gateway, stock, none)
	ids := s.makeSandboxes(0, pacedSandboxes)
	clients, took := map[*contestant][]*client{}, map[kind][]latencies{}
	for _, c := range all {
		clients[c] = s.connectFor(c, ids)
		s.callAt(c, clients[c], pacedTurn/2) // warms it up
	}
	takeTurns(all, *rounds, func(t turn) {
		c := t.contestant
		took[c.kind] = append(took[c.kind], s.callAlone(c, clients[c], pacedTurn))
	})
	t := table{
		title: fmt.Sprintf("Latency at %d calls a second", pace),
		text: fmt.Sprintf("The small unary call over HTTP/1.1, due every millisecond whatever became of those before, to %d sandboxes in turn, each over a connection of its own. "+
			"From when a call is due until its answer is there, with the generator and the upstream, all on one core; added is what that is more than without a proxy. "+
			"In the outages Redis hangs (SIGSTOP), and is dead, for %v each: longer than a route is cached, and all of them were looked up within a second. "+
			"Before each outage there is a turn as long without, which is what it is compared to. Medians of the turns.",
			pacedSandboxes, outage),
		head: latencyHead,
	}
	for _, c := range all {
		t.rows = append(t.rows, latencyRow(string(c.kind), took[c.kind], took[none]))
	}
	r.promise(promise{text: fmt.Sprintf("%d calls a second: p99 over p50", pace), value: overTurns(took[gateway], latencies.spread), most: 3, write: times})
	for _, c := range all {
		if c.kind == gateway {
			t.rows = append(t.rows, s.outages(r, c, clients[c], took[none])...)
		}
	}
	t.text += s.hostText()
	r.add(t)
}

// outages measures calls while Redis is out, and right before.
func (s *scene) outages(r *report, c *contestant, clients []*client, without []latencies) (rows [][]string) {
	s.Helper()
	for _, o := range []struct {
		name       string
		begin, end func()
	}{
		{"Redis hangs", s.redis.Pause, s.redis.Resume},
		{"Redis is dead", s.redis.Stop, func() { on(s, s.cores.rest, s.redis.Start); s.makeSandboxes(0, pacedSandboxes) }},
	} {
		var befores, turns []latencies
		var p50s, p99s []float64 // over those before
		for range min(*rounds, outages) {
			before := s.callAlone(c, clients, outage)
			during := undisturbed(s, outage+recovery, func() latencies {
				o.begin()
				during := s.callAt(c, clients, outage)
				o.end()
				s.callAt(c, clients, recovery)
				return during
			})
			befores, turns = append(befores, before), append(turns, during)
			p50s, p99s = append(p50s, during.p50()/before.p50()), append(p99s, during.p99()/before.p99())
		}
		rows = append(rows, latencyRow(string(c.kind)+", before "+o.name, befores, without),
			latencyRow(string(c.kind)+", while "+o.name, turns, without))
		what := fmt.Sprintf("%d calls a second, %s: ", pace, o.name)
		r.promise(promise{text: what + "p50 over that before", value: median(p50s), most: noise, write: times})
		r.promise(promise{text: what + "p99 over that before", value: median(p99s), most: noise, write: times})
		r.promise(promise{text: what + "p99 over p50", value: overTurns(turns, latencies.spread), most: 3, write: times})
	}
	return rows
}

// callAlone is callAt in a turn that is undisturbed.
func (s *scene) callAlone(c *contestant, clients []*client, length time.Duration) latencies {
	s.Helper()
	return undisturbed(s, length, func() latencies { return s.callAt(c, clients, length) })
}

// callAt begins calls at the pace for a time, by one client after the other, and
// returns how long each took. What waits for an earlier call of its client has
// begun, too.
func (s *scene) callAt(c *contestant, clients []*client, length time.Duration) latencies {
	s.Helper()
	took, errs := make([]latencies, len(clients)), make([]error, len(clients))
	due := make([]chan time.Time, len(clients))
	var running sync.WaitGroup
	for i, k := range clients {
		due[i] = make(chan time.Time, pace) // a second's calls may wait
		running.Go(func() {
			for begun := range due[i] {
				if errs[i] == nil {
					errs[i] = k.call()
				}
				took[i] = append(took[i], time.Since(begun).Seconds())
			}
		})
	}
	atPace(length, func(i int, at time.Time) { due[i%len(due)] <- at })
	for _, d := range due {
		close(d)
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("%s: %v", c.kind, err)
	}
	return slices.Concat(took...)
}

// atPace calls begin for each moment at the pace, and says which it is. What it is late
// itself is a few microseconds: it sleeps in a thread of its own, and not in Go's timers,
// which are late by half a millisecond. Otherwise it waits for the contestant, which is
// what is measured.
func atPace(length time.Duration, begin func(i int, at time.Time)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const every = time.Second / pace
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	begun := time.Now()
	for i := range int(length / every) {
		at := begun.Add(time.Duration(i+1) * every)
		for left := time.Until(at); left > 0; left = time.Until(at) {
			sleep := unix.NsecToTimespec(left.Nanoseconds())
			_ = unix.Nanosleep(&sleep, nil) // a signal ends it early
		}
		begin(i, at)
	}
}
