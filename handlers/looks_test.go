package handlers

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// looking is a gateway that serves nothing, with a registry that a test sets.
// The clock is the bubble's.
func looking(t *testing.T, deaths *Deaths) (*Gateway, *registry) {
	r := &registry{push: make(chan string)}
	r.say(routing.StateRunning, nil)
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: r}}), routing.CacheOptions{})
	g := New(Options{Routes: cache, Deaths: deaths})
	ctx, stop := context.WithCancel(t.Context())
	go cache.Run(ctx)
	t.Cleanup(func() {
		g.Close()
		stop()
		cache.Close()
	})
	return g, r
}

func life(n string) *routing.Route {
	return &routing.Route{SandboxID: "a", State: routing.StateRunning, Lifecycle: n}
}

func TestWhoeverJoinsALookGetsAWholeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := looking(t, nil)
		go g.looks.why(t.Context(), life("life1")) // for a cut of its own
		time.Sleep(900 * time.Millisecond)
		time.AfterFunc(300*time.Millisecond, func() { r.say(0, routing.ErrGone) })
		if why := g.looks.why(t.Context(), life("life1")); why != cause.SandboxGone {
			t.Errorf("found %v", why)
		}
	})
}

func TestALookIsForOneLifeOfASandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := looking(t, nil) // "life1" runs
		begun := time.Now()
		go g.looks.why(t.Context(), life("life1"))
		if why := g.looks.why(t.Context(), life("life0")); why != cause.OK || time.Since(begun) > 500*time.Millisecond {
			t.Errorf("%v after %v: the sandbox lives again, there is nothing to wait for", why, time.Since(begun))
		}
	})
}

func TestALookIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := looking(t, nil)
		begun := time.Now()
		if why := g.looks.why(t.Context(), life("life1")); why != cause.OK || time.Since(begun) > 1200*time.Millisecond {
			t.Errorf("%v after %v", why, time.Since(begun))
		}
		over := g.opt.Deaths.begin("a") // a kill that never ends
		defer over()
		begun = time.Now()
		if why := g.looks.why(t.Context(), life("life1")); why != cause.OK || time.Since(begun) > endingBound+time.Second {
			t.Errorf("%v after %v", why, time.Since(begun))
		}
		if len(g.looks.running) != 0 {
			t.Errorf("%d looks are left", len(g.looks.running))
		}
	})
}

// When there is no time left, what is known already is told all the same.
func TestAHurryLosesNoReasonThatIsKnown(t *testing.T) {
	g, _ := looking(t, nil)
	known := &look{route: life("life1"), done: make(chan struct{}), found: cause.SandboxGone}
	close(known.done)
	g.looks.running = map[string][]*look{"a": {known}}
	close(g.looks.hurry)
	for range 64 { // of two channels that are ready, select takes any
		if why := g.looks.why(t.Context(), life("life1")); why != cause.SandboxGone {
			t.Fatalf("found %v", why)
		}
	}
}

// Any of several calls that end a sandbox at the same time may be the one.
func TestALookHearsWhatACallMadeOfTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := looking(t, nil)
		overA, overB := g.opt.Deaths.begin("a"), g.opt.Deaths.begin("a")
		found := make(chan cause.Cause)
		go func() { found <- g.looks.why(t.Context(), life("life1")) }()
		time.Sleep(5 * time.Second)
		g.opt.Deaths.tell("a", cause.SandboxGone)
		overA()
		if why := <-found; why != cause.SandboxGone {
			t.Errorf("found %v", why)
		}
		overB()
		if g.opt.Deaths.pending("a") {
			t.Error("a call is still taken to be under way")
		}
	})
}

// After a reload a stream belongs to another gateway than the call that ends
// its sandbox.
func TestEveryGatewayHearsOfADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaths := NewDeaths()
		older, _ := looking(t, deaths)
		newer, _ := looking(t, deaths)
		ctx, cancel := context.WithCancelCause(t.Context())
		stream := &running{seen: new(sight), route: life("life1"), cancel: cancelFunc(cancel)}
		older.streams.add(stream)
		defer older.streams.remove(stream)
		over := newer.opt.Deaths.begin("a")
		found := make(chan cause.Cause)
		go func() { found <- older.looks.why(t.Context(), life("life1")) }()
		time.Sleep(3 * time.Second)
		newer.opt.Deaths.tell("a", cause.SandboxPaused)
		over()
		if why := <-found; why != cause.SandboxPaused || endedBy(ctx) != cause.SandboxPaused {
			t.Errorf("found %v, ended by %v", why, endedBy(ctx))
		}
		older.Close()
		if len(deaths.gateways) != 1 {
			t.Errorf("%d gateways are told of deaths", len(deaths.gateways))
		}
	})
}

// A registry that knows only that a sandbox does not run may know more soon.
func TestAStoppedSandboxIsAskedForUntilItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := looking(t, nil)
		r.say(routing.StateStopped, nil)
		if why := g.looks.why(t.Context(), life("life1")); why != cause.SandboxStopped {
			t.Errorf("found %v", why)
		}
		time.AfterFunc(500*time.Millisecond, func() { r.say(routing.StatePaused, nil) })
		if why := g.looks.why(t.Context(), life("life1")); why != cause.SandboxPaused {
			t.Errorf("found %v", why)
		}
		// The record goes when the look is nearly over, and what it means takes nearly as long to find out.
		r.say(routing.StateRunning, nil)
		time.AfterFunc(850*time.Millisecond, func() { r.say(routing.StateStopped, nil) })
		time.AfterFunc(1750*time.Millisecond, func() { r.say(routing.StatePaused, nil) })
		if why := g.looks.why(t.Context(), life("life1")); why != cause.SandboxPaused {
			t.Errorf("found %v", why)
		}
		begun := time.Now()
		r.say(routing.StateStopped, nil)
		if why := g.looks.why(t.Context(), life("life1")); why != cause.SandboxStopped || time.Since(begun) > 1200*time.Millisecond {
			t.Errorf("found %v after %v", why, time.Since(begun))
		}
	})
}

// After a lost watch thousands of sandboxes may have to be looked after.
func TestASweepIsBoundedAndEndsWithItsGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := looking(t, nil)
		r.say(0, routing.ErrGone)
		const sandboxes = 500
		var ended []context.Context
		for i := range sandboxes {
			ctx, cancel := context.WithCancelCause(t.Context())
			route := &routing.Route{SandboxID: fmt.Sprint("sbx-", i), Lifecycle: "life1"}
			stream := &running{seen: new(sight), route: route, cancel: cancelFunc(cancel)}
			g.streams.add(stream)
			defer g.streams.remove(stream)
			ended = append(ended, ctx)
		}
		for range 10 {
			g.sweeper.changed("") // the watch comes and goes
		}
		if g.sweeper.workers > sweepers {
			t.Errorf("%d at work", g.sweeper.workers)
		}
		time.Sleep(2 * time.Second)
		for _, ctx := range ended {
			if endedBy(ctx) != cause.SandboxGone {
				t.Fatalf("a stream goes on: %v", endedBy(ctx))
			}
		}
		g.Close()
		g.sweeper.changed("")
		synctest.Wait()
		if g.sweeper.workers != 0 {
			t.Errorf("%d at work after Close", g.sweeper.workers)
		}
	})
}

// pending is how many sandboxes are being looked for.
func (l *looks) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}
