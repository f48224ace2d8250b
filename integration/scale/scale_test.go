package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/routing"
)

var (
	gateways  = flag.Int("gateways", 16, "how many gateways there are")
	sandboxes = flag.Int("sandboxes", 60, "how many sandboxes there are, half of which are killed")
	sharing   = flag.Duration("sharing", time.Second, "how long gateways share their limits")
	file      = flag.String("table", "", "the Markdown file that gets the table")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// calls are exact numbers of commands, by name.
type calls map[string]int

func TestSixteenGatewaysOnOneRedis(t *testing.T) {
	f := start(t, *gateways, *sandboxes)
	killed, left := f.ids[:*sandboxes/2], f.ids[*sandboxes/2:]
	all, ended, alive := *gateways**sandboxes, *gateways*len(killed), *gateways*len(left)
	m := newMeter(t, f.server)
	var rows []row
	step := func(of string, events int, want calls, do func()) {
		t.Helper()
		before := m.read()
		do()
		c := m.since(before)
		delete(c.commands, "ping") // some a minute, whatever else there is
		if want != nil && !maps.Equal(c.commands, want) {
			t.Errorf("%s, %d times: %v, want %v", of, events, c.commands, want)
		}
		rows = append(rows, row{of, events, c})
	}

	step("request for a sandbox that a gateway does not know", all, calls{"get": all}, func() { f.ask(f.ids, nil) })
	step("request for one that it knows", 10*all, calls{}, func() {
		for range 10 {
			f.ask(f.ids, nil)
		}
	})
	step(fmt.Sprintf("kill, heard of by %d gateways", *gateways), len(killed), calls{"del": len(killed)}, func() { f.kill(killed) })
	step("request for a sandbox that was killed", ended, calls{"get": ended}, func() { f.ask(killed, routing.ErrGone) })
	// A record may have changed unheard: each that is used is read once more, and no other.
	f.loseWatches()
	step("request after a lost watch", alive, calls{"get": alive}, func() { f.ask(left, nil) })
	n := len(left)
	step("end of a sandbox in use that is pushed back", n, calls{"watch": n, "get": n, "multi": n, "set": n, "exec": n}, func() { f.extend(left) })
	seconds := max(1, int(*sharing/time.Second))
	step("second without calls, all gateways", seconds, calls{}, func() { f.share(0, *sharing) })
	for _, subjects := range []int{10, 1000} {
		told := m.read().commands["publish"]
		step(fmt.Sprintf("second of sharing limits, all gateways, %d subjects that call", subjects), seconds, nil, func() {
			f.share(subjects, *sharing)
			f.until("something is told", func() bool { return m.read().commands["publish"] > told })
		})
		if n, most := rows[len(rows)-1].commands["publish"], *gateways*(seconds*5+5); n > most {
			t.Errorf("%d messages in %v, want %d at most", n, *sharing, most)
		}
	}
	show(t, rows, *file)
}

// kill deletes records as ROCK does, one by one, and waits until all gateways have heard of all.
func (f *fleet) kill(ids []string) {
	f.Helper()
	before := make([]uint64, len(f.gateways))
	for i, g := range f.gateways {
		before[i] = g.cache.Stats().Invalidations
	}
	for _, id := range ids {
		if err := f.admin.Del(f.Context(), "alive:"+id).Err(); err != nil {
			f.Fatal(err)
		}
	}
	for i, g := range f.gateways {
		f.until("all kills are heard of", func() bool { return g.cache.Stats().Invalidations-before[i] == uint64(len(ids)) })
	}
}

// loseWatches closes the connections over which changes are pushed, and waits until there are others.
func (f *fleet) loseWatches() {
	f.Helper()
	before := make([]uint64, len(f.gateways))
	for i, g := range f.gateways {
		before[i] = g.cache.Stats().Invalidations
	}
	f.server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	for i, g := range f.gateways {
		f.until("a new watch", func() bool {
			return g.cache.Stats().Invalidations == before[i]+1 && g.registry.Stats().Watching == 1
		})
	}
	f.awaitListeners()
}

// extend pushes the ends of sandboxes back, each by one of the gateways.
func (f *fleet) extend(ids []string) {
	f.Helper()
	for i, id := range ids {
		g := f.gateways[i%len(f.gateways)]
		if err := g.registry.Extend(f.Context(), &routing.Route{SandboxID: id}); err != nil {
			f.Fatal(err)
		}
	}
}

// share lets subjects call at every gateway for some time.
func (f *fleet) share(subjects int, d time.Duration) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), d)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	names := make([]string, subjects)
	for i := range names {
		names[i] = fmt.Sprint("team-", i)
	}
	for ctx.Err() == nil {
		for _, g := range f.gateways {
			for _, name := range names {
				if r := g.limiter.Request(limit.Who{Subject: name}); r != nil {
					f.Fatal(errors.New(r.Text))
				}
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
