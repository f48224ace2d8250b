package routing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errRefusedConn = fmt.Errorf("%w: connection refused", ErrUnavailable)

// Field report F12: an outage is never gone, and known sandboxes keep working.
func TestCacheOutageIsNeverGone(t *testing.T) {
	for name, outage := range map[string]func(*table){
		"refused":       func(t *table) { t.err = errRefusedConn },
		"malformed":     func(t *table) { t.err = fmt.Errorf("%w: not JSON", ErrMalformed) },
		"some error":    func(t *table) { t.err = errors.New("LOADING") },
		"black hole":    func(t *table) { t.delay = time.Hour },
		"deaf registry": func(t *table) { t.delay, t.deaf = time.Minute, true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := newTable(running("known", "1"))
				c := NewCache(reg, CacheOptions{})
				ask(t, c, "known")
				reg.set(outage)
				time.Sleep(11 * time.Second)
				for range 300 {
					if got := ask(t, c, "known"); got.source != SourceStale || got.route.Lifecycle != "1" {
						t.Fatalf("known: %+v", got)
					}
					start := time.Now()
					got := ask(t, c, "unknown")
					if got.err == nil || errors.Is(got.err, ErrGone) {
						t.Fatalf("unknown: %+v", got)
					}
					// One lookup, and a tenth of its time for the watchdog.
					if d := time.Since(start); d > 1200*time.Millisecond {
						t.Fatalf("unknown took %v", d)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if s := c.Stats(); s.StaleServed != 300 || s.OldestStale < 40*time.Second || s.LastFailure == "" {
					t.Fatalf("stats: %+v", s)
				}
				time.Sleep(time.Minute) // let the deaf one return
			})
		})
	}
}

func TestCacheDeadRegistryDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable()
		for i := range 100 {
			reg.put(running(fmt.Sprintf("s%d", i), "1"))
		}
		c := NewCache(reg, CacheOptions{})
		for i := range 100 {
			ask(t, c, fmt.Sprintf("s%d", i))
		}
		reg.set(func(t *table) { t.delay = time.Hour }) // drops every packet
		time.Sleep(11 * time.Second)

		var worst time.Duration
		load := func(d time.Duration) {
			worst = 0
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
				for i := range 100 {
					start := time.Now()
					if got := ask(t, c, fmt.Sprintf("s%d", i)); got.source != SourceStale {
						t.Fatalf("got %+v", got)
					}
					worst = max(worst, time.Since(start))
				}
			}
		}
		load(3 * time.Second)
		if worst > 200*time.Millisecond {
			t.Fatalf("when it died a known sandbox was delayed by %v, more than its patience", worst)
		}
		load(5 * time.Second)
		if worst != 0 {
			t.Fatalf("while it is dead a known sandbox is delayed by %v", worst)
		}
		// A few callers carry the probes, the others are refused at once.
		before := reg.allLookups()
		var slow atomic.Int32
		var callers sync.WaitGroup
		for i := range 1000 {
			callers.Go(func() {
				begin := time.Now()
				if got := ask(t, c, fmt.Sprintf("new%d", i)); !errors.Is(got.err, ErrUnavailable) {
					t.Errorf("got %+v", got)
				}
				if time.Since(begin) > 0 {
					slow.Add(1)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		callers.Wait()
		if probes := reg.allLookups() - before; slow.Load() > 41 || probes > 41 {
			t.Fatalf("%d slow callers, %d probes in 10 s", slow.Load(), probes)
		}
	})
}

func TestCacheIsNormalSoonAfterAnOutage(t *testing.T) {
	for name, outage := range map[string]func(*table){
		"refused":    func(t *table) { t.err = errRefusedConn },
		"black hole": func(t *table) { t.delay = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := newTable(running("known", "1"))
				c := NewCache(reg, CacheOptions{})
				ask(t, c, "known")
				time.Sleep(11 * time.Second)
				reg.set(outage)
				load := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
						<-asking(c, "known")
						asking(c, fmt.Sprintf("new%d", time.Now().UnixNano()))
					}
				}
				load(5 * time.Second)
				if !c.Stats().Failing {
					t.Fatal("the outage was not noticed")
				}
				reg.set(func(t *table) { t.err, t.delay = nil, 0 })
				reg.put(running("known", "2"))
				load(2 * time.Second)
				if got := ask(t, c, "known"); got.source != SourceCache || got.route.Lifecycle != "2" {
					t.Fatalf("known: %+v", got)
				}
				if got := ask(t, c, "gone"); !errors.Is(got.err, ErrGone) {
					t.Fatalf("gone: %+v", got)
				}
				if s := c.Stats(); s.Failing || s.OldestStale != 0 {
					t.Fatalf("stats: %+v", s)
				}
			})
		})
	}
}

// A registry that tells of a change is back. What it tells of may not be served any more, so it must be possible to ask.
func TestCacheAsksARegistryThatTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := watched{newTable(running("known", "1")), make(chan string)}
		c := NewCache(reg, CacheOptions{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.Run(ctx)
		ask(t, c, "known")
		reg.set(func(t *table) { t.err = errRefusedConn })
		for range 20 {
			asking(c, "unknown")
			time.Sleep(100 * time.Millisecond)
		}
		if !c.Stats().Failing {
			t.Fatal("the outage was not noticed")
		}
		reg.set(func(t *table) { t.err = nil })
		reg.put(running("known", "2"))
		reg.changes <- "known"
		synctest.Wait()
		if got := ask(t, c, "known"); got.err != nil || got.route.Lifecycle != "2" {
			t.Errorf("%+v", got)
		}
	})
}

func TestCacheStaleRouteHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{TTL: 10 * time.Second, Stale: time.Minute})
		ask(t, c, "a")
		reg.set(func(t *table) { t.err = errRefusedConn })
		time.Sleep(70*time.Second - 1)
		if got := ask(t, c, "a"); got.source != SourceStale {
			t.Fatalf("before: %+v", got)
		}
		time.Sleep(time.Nanosecond)
		if got := ask(t, c, "a"); !errors.Is(got.err, ErrUnavailable) {
			t.Fatalf("after: %+v", got)
		}
	})
}

func TestCacheOnlyARunningRouteIsALastKnownOne(t *testing.T) {
	for name, route := range map[string]*Route{"gone": nil, "paused": inState(running("a", "1"), StatePaused)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := newTable()
				if route != nil {
					reg.put(route)
				}
				c := NewCache(reg, CacheOptions{})
				ask(t, c, "a")
				reg.set(func(t *table) { t.err = errRefusedConn })
				time.Sleep(2 * time.Second)
				if got := ask(t, c, "a"); !errors.Is(got.err, ErrUnavailable) {
					t.Fatalf("got %+v", got)
				}
			})
		})
	}
}

// Field report G08: the bound holds whatever the registry does.
func TestCacheLeavesADeafRegistryBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.delay, reg.deaf = time.Minute, true
		c := NewCache(reg, CacheOptions{LookupTimeout: time.Second})
		start := time.Now()
		if got := ask(t, c, "a"); !errors.Is(got.err, ErrUnavailable) || time.Since(start) != 1100*time.Millisecond {
			t.Fatalf("got %+v after %v", got, time.Since(start))
		}
		start = time.Now()
		if _, err := c.Fresh(t.Context(), "a"); !errors.Is(err, ErrUnavailable) || time.Since(start) > 1100*time.Millisecond {
			t.Fatalf("fresh: %v after %v", err, time.Since(start))
		}
		reg.set(func(t *table) { t.delay = 0 })
		time.Sleep(time.Minute)
		if s := c.Stats(); s.Entries != 0 || s.Fenced == 0 {
			t.Fatalf("an answer that came a minute late was remembered: %+v", s)
		}
	})
}

// Field report G05: many callers at once say nothing about the registry.
func TestCacheQueueIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.delay = 900 * time.Millisecond
		c := NewCache(reg, CacheOptions{MaxLookups: 2, QueueTimeout: 2 * time.Second})
		var served, busy atomic.Int32
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				switch got := ask(t, c, fmt.Sprint("s", i)); {
				case errors.Is(got.err, ErrGone):
					served.Add(1)
				case errors.Is(got.err, ErrUnavailable):
					busy.Add(1)
				}
			})
		}
		callers.Wait()
		// In two seconds two places come free twice: six are answered, each
		// within its own second although it waited for longer.
		if served.Load() != 6 || busy.Load() != 14 {
			t.Fatalf("%d answered, %d turned away", served.Load(), busy.Load())
		}
		if got := ask(t, c, "a"); got.err != nil || c.Stats().Refused != 0 {
			t.Fatalf("after the rush: %+v, %+v", got, c.Stats())
		}
	})
}

// Whoever asked first is answered first, however long the queue is and whoever
// comes after: nobody starves in it.
func TestCacheQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable()
		reg.delay = 100 * time.Millisecond
		c := NewCache(reg, CacheOptions{MaxLookups: 2, QueueTimeout: time.Minute})
		var callers sync.WaitGroup
		const early, late = 100, 200
		var starved atomic.Int32
		for i := range early + late {
			if i >= early {
				time.Sleep(50 * time.Millisecond) // as fast as places come free
			}
			callers.Go(func() {
				start := time.Now()
				ask(t, c, fmt.Sprint("s", i))
				// The queue never holds more than the first ones.
				if time.Since(start) > (early/2+2)*reg.delay {
					starved.Add(1)
				}
			})
		}
		callers.Wait()
		if n := starved.Load(); n > 0 {
			t.Errorf("%d of %d waited for longer than the whole queue takes", n, early+late)
		}
	})
}

// Ids that somebody has made up delay nobody else, not even who asks for the same
// ones, and their queue has an end.
func TestCacheStrangersDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("mine", "1"), running("seen", "1"))
		reg.delay = 100 * time.Millisecond
		c := NewCache(reg, CacheOptions{MaxLookups: 16, QueueTimeout: time.Minute})
		var strangers sync.WaitGroup
		var away atomic.Int32
		for i := range 1000 {
			strangers.Go(func() {
				id := fmt.Sprint("made-up-", i)
				if i == 200 {
					id = "seen"
				}
				if _, _, err := c.LookupFor(t.Context(), Stranger, id); errors.Is(err, ErrUnavailable) {
					away.Add(1)
				}
			})
		}
		synctest.Wait()
		for _, id := range []string{"mine", "seen"} {
			start := time.Now()
			if got := ask(t, c, id); got.err != nil || time.Since(start) > reg.delay {
				t.Errorf("%s: %v after %v", id, got.err, time.Since(start))
			}
		}
		strangers.Wait()
		if n := away.Load(); n < 1000-strangersQueue-2 || n > 1000-strangersQueue {
			t.Errorf("%d of 1000 were turned away", n)
		}
	})
}

func TestCacheOneFailingSandboxIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("good", "1"))
		broken := byID{"bad": errRefusedConn, "worse": errRefusedConn}
		c := NewCache(registryFunc(func(ctx context.Context, id string) (*Route, error) {
			if err := broken[id]; err != nil {
				return nil, err
			}
			return reg.Lookup(ctx, id)
		}), CacheOptions{TTL: time.Millisecond, Negative: time.Millisecond})
		for range 1000 {
			ask(t, c, "bad")
			ask(t, c, "worse")
			if got := ask(t, c, "good"); got.err != nil || got.source != SourceRegistry {
				t.Fatalf("got %+v", got)
			}
			time.Sleep(2 * time.Millisecond)
		}
		if s := c.Stats(); s.Refused != 0 {
			t.Fatalf("stats: %+v", s)
		}
	})
}

func TestCacheServesTheLastKnownRouteOfAFailingShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"), running("b", "1"))
		hole := false
		c := NewCache(registryFunc(func(ctx context.Context, id string) (*Route, error) {
			if hole && id == "a" {
				<-ctx.Done()
				return nil, errRefusedConn
			}
			return reg.Lookup(ctx, id)
		}), CacheOptions{TTL: time.Millisecond})
		ask(t, c, "a")
		hole = true
		time.Sleep(time.Second)
		slow := 0
		for range 1000 {
			ask(t, c, "b") // the registry as a whole is well
			start := time.Now()
			if got := ask(t, c, "a"); got.source != SourceStale {
				t.Fatalf("got %+v", got)
			}
			if time.Since(start) > 0 {
				slow++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if slow > 60 {
			t.Fatalf("%d of 1000 requests waited for the failing shard", slow)
		}
	})
}

type byID map[string]error

type registryFunc func(context.Context, string) (*Route, error)

func (f registryFunc) Lookup(ctx context.Context, id string) (*Route, error) { return f(ctx, id) }
