package routing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Field report F03: a late answer does not overwrite what is known since.
func TestCacheLateAnswerDoesNotUndoAnInvalidation(t *testing.T) {
	for name, id := range map[string]string{"one": "a", "everything": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := newTable(running("a", "1"))
				reg.lag = 100 * time.Millisecond
				c := NewCache(reg, CacheOptions{})
				early := asking(c, "a")
				synctest.Wait() // the registry has read "1" and not answered
				reg.put(running("a", "2"))
				c.Invalidate(id)
				late := asking(c, "a")
				if got := <-early; got.err != nil || got.route.Lifecycle != "1" {
					t.Fatalf("who asked before: %+v", got)
				}
				if got := <-late; got.err != nil || got.route.Lifecycle != "2" {
					t.Fatalf("who asked after: %+v", got)
				}
				if got := ask(t, c, "a"); got.source != SourceCache || got.route.Lifecycle != "2" {
					t.Fatalf("later: %+v", got)
				}
				if s := c.Stats(); s.Fenced != 1 {
					t.Fatalf("stats: %+v", s)
				}
			})
		})
	}
}

// Field report F07: read your own kill.
func TestCacheForgottenSandboxIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.lag = 100 * time.Millisecond
		c := NewCache(reg, CacheOptions{Negative: time.Second})
		ask(t, c, "a")
		late := freshening(c, "a")
		synctest.Wait()
		c.Forget("a", "1")
		if got := ask(t, c, "a"); got.source != SourceCache || !errors.Is(got.err, ErrGone) {
			t.Fatalf("at once: %+v", got)
		}
		if got := <-late; !errors.Is(got.err, ErrGone) {
			t.Fatalf("the late answer: %+v", got)
		}
		if got := ask(t, c, "a"); got.source != SourceCache || !errors.Is(got.err, ErrGone) {
			t.Fatalf("after the late answer: %+v", got)
		}
		// A record of the same life that lingers in the registry.
		if route, err := c.Fresh(t.Context(), "a"); !errors.Is(err, ErrGone) {
			t.Fatalf("fresh: %+v, %v", route, err)
		}
		// The next life under the same id is another matter.
		reg.put(running("a", "2"))
		if route, err := c.Fresh(t.Context(), "a"); err != nil || route.Lifecycle != "2" {
			t.Fatalf("fresh, next life: %+v, %v", route, err)
		}
	})
}

// A client that has not heard of its kill kills again, and ROCK's record may linger still.
func TestCacheForgetsTheSameLifeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(newTable(running("a", "1")), CacheOptions{Negative: time.Second})
		ask(t, c, "a")
		c.Forget("a", "")
		c.Forget("a", "")
		if route, err := c.Fresh(t.Context(), "a"); !errors.Is(err, ErrGone) {
			t.Fatalf("%+v, %v", route, err)
		}
	})
}

func TestCacheForgetLastsForTheNegativeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{Negative: time.Second})
		c.Forget("a", "")
		time.Sleep(time.Second - 1)
		if got := ask(t, c, "a"); !errors.Is(got.err, ErrGone) {
			t.Fatalf("before: %+v", got)
		}
		time.Sleep(time.Nanosecond)
		if got := ask(t, c, "a"); got.err != nil {
			t.Fatalf("after: %+v", got)
		}
	})
}

// Field report F03: the delete of an older life does not evict the newer one.
func TestCacheLateForgetOfAnOlderLifeAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "2"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		c.Forget("a", "1")
		if got := ask(t, c, "a"); got.source != SourceRegistry || got.err != nil || got.route.Lifecycle != "2" {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestCacheLastKnownRouteAfterInvalidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"), running("b", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		ask(t, c, "b")
		reg.set(func(t *table) { t.err = errRefusedConn })
		c.Invalidate("") // maybe changed
		if got := ask(t, c, "a"); got.source != SourceStale {
			t.Fatalf("after everything was invalidated: %+v", got)
		}
		c.Invalidate("a") // certainly changed
		if got := ask(t, c, "a"); !errors.Is(got.err, ErrUnavailable) {
			t.Fatalf("after it was invalidated itself: %+v", got)
		}
		if got := ask(t, c, "b"); got.source != SourceStale {
			t.Fatalf("the other: %+v", got)
		}
	})
}

func TestCacheInvalidationWhileWaitingTakesTheLastKnownRouteAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		time.Sleep(11 * time.Second)
		reg.set(func(t *table) { t.delay = time.Hour })
		waiting := asking(c, "a")
		time.Sleep(100 * time.Millisecond)
		c.Invalidate("a")
		if got := <-waiting; !errors.Is(got.err, ErrUnavailable) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestCacheFreshIsAtLeastAsNewAsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.lag = 50 * time.Millisecond
		c := NewCache(reg, CacheOptions{})
		first := asking(c, "a")
		synctest.Wait() // has read "1"
		reg.put(running("a", "2"))
		var fresh []<-chan answer
		for range 1000 {
			fresh = append(fresh, freshening(c, "a"))
		}
		for _, ch := range fresh {
			if got := <-ch; got.err != nil || got.route.Lifecycle != "2" {
				t.Fatalf("fresh: %+v", got)
			}
		}
		if got := <-first; got.route.Lifecycle != "1" {
			t.Fatalf("first: %+v", got)
		}
		if n := reg.lookups("a"); n != 2 {
			t.Fatalf("%d lookups, want 2: the fresh ones share one", n)
		}
		if got := ask(t, c, "a"); got.source != SourceCache || got.route.Lifecycle != "2" {
			t.Fatalf("its answer is not remembered: %+v", got)
		}
	})
}

func TestCacheFreshDoesNotWaitLongForAStuckLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "2"))
		stuck := make(chan struct{})
		var n atomic.Int32
		c := NewCache(registryFunc(func(ctx context.Context, id string) (*Route, error) {
			if n.Add(1) == 1 {
				<-stuck // then answers with what it read long ago
				return running("a", "1"), nil
			}
			return reg.Lookup(ctx, id)
		}), CacheOptions{})
		first := asking(c, "a")
		synctest.Wait()
		start := time.Now()
		route, err := c.Fresh(t.Context(), "a")
		if err != nil || route.Lifecycle != "2" || time.Since(start) > 200*time.Millisecond {
			t.Fatalf("got %+v, %v after %v", route, err, time.Since(start))
		}
		close(stuck)
		<-first
		if got := ask(t, c, "a"); got.route.Lifecycle != "2" {
			t.Fatalf("the older answer overwrote the newer: %+v", got)
		}
	})
}

func TestCacheFreshDoesNotKnowInsteadOfGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		reg.set(func(t *table) { t.err = errRefusedConn })
		if route, err := c.Fresh(t.Context(), "a"); route != nil || !errors.Is(err, ErrUnavailable) {
			t.Fatalf("got %+v, %v", route, err)
		}
		if got := ask(t, c, "a"); got.source != SourceCache {
			t.Fatalf("the outage cost a known route: %+v", got)
		}
	})
}

// Whatever the order of writes, lookups, invalidations and slow answers: after
// an invalidation that follows a write, nobody who asks later sees less than
// that write.
func TestCacheNeverGoesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sandboxes = 5
		var written, told [sandboxes]atomic.Int64
		c := NewCache(registryFunc(func(ctx context.Context, id string) (*Route, error) {
			i, _ := strconv.Atoi(id)
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			read := written[i].Load()
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
			switch rand.IntN(10) {
			case 0:
				return nil, ErrUnavailable
			case 1:
				return nil, fmt.Errorf("%w", ErrMalformed)
			}
			return running(id, strconv.FormatInt(read, 10)), nil
		}), CacheOptions{TTL: time.Second, MaxEntries: 1, MaxLookups: 8, LookupTimeout: 250 * time.Millisecond})

		stop := make(chan struct{})
		var workers sync.WaitGroup
		worker := func(step func(i int)) {
			workers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(1+rand.IntN(30)) * time.Millisecond):
						step(rand.IntN(sandboxes))
					}
				}
			})
		}
		worker(func(i int) {
			n := written[i].Add(1)
			if rand.IntN(20) == 0 {
				c.Invalidate("")
			} else {
				c.Invalidate(strconv.Itoa(i))
			}
			told[i].Store(n)
		})
		var seen atomic.Int64
		check := func(i int, floor int64, route *Route) {
			if route == nil {
				return
			}
			seen.Add(1)
			if got, _ := strconv.ParseInt(route.Lifecycle, 10, 64); got < floor {
				t.Errorf("sandbox %d: saw %d, was told %d before asking", i, got, floor)
			}
		}
		for range 8 {
			worker(func(i int) {
				floor := told[i].Load()
				route, source, _ := c.Lookup(context.Background(), strconv.Itoa(i))
				if source != SourceStale { // stale is allowed after Invalidate("")
					check(i, floor, route)
				}
			})
			worker(func(i int) {
				floor := written[i].Load() // fresh needs no invalidation
				route, _ := c.Fresh(context.Background(), strconv.Itoa(i))
				check(i, floor, route)
			})
		}
		time.Sleep(2 * time.Minute)
		close(stop)
		workers.Wait()
		time.Sleep(time.Second)
		s := c.Stats()
		if seen.Load() < 1000 || s.Fenced == 0 || s.Evictions == 0 || s.Hits == 0 || s.InFlight != 0 {
			t.Fatalf("the test did not exercise the cache: saw %d, %+v", seen.Load(), s)
		}
	})
}
