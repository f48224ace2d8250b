package routing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCacheServesFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		if got := ask(t, c, "a"); got.source != SourceRegistry || got.route.Lifecycle != "1" {
			t.Fatalf("first: %+v", got)
		}
		for range 100 {
			if got := ask(t, c, "a"); got.source != SourceCache {
				t.Fatalf("later: %+v", got)
			}
		}
		if n := reg.lookups("a"); n != 1 {
			t.Fatalf("%d lookups, want 1", n)
		}
		if s := c.Stats(); s.Hits != 100 || s.Misses != 1 || s.Lookups != 1 || s.Found != 1 || s.Entries != 1 {
			t.Fatalf("stats: %+v", s)
		}
	})
}

// Field report F01: a hit must not renew the entry.
func TestCacheEntryExpiresUnderConstantTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{TTL: 10 * time.Second})
		ask(t, c, "a")
		reg.put(running("a", "2"))
		start := time.Now()
		for ask(t, c, "a").route.Lifecycle == "1" {
			if time.Since(start) > 10*time.Second {
				t.Fatal("the old route outlived the TTL")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := reg.lookups("a"); n != 2 {
			t.Fatalf("%d lookups, want 2", n)
		}
	})
}

func TestCacheTTLCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.lag = 900 * time.Millisecond
		c := NewCache(reg, CacheOptions{TTL: time.Second, Patience: time.Second})
		ask(t, c, "a")
		time.Sleep(200 * time.Millisecond)
		if got := ask(t, c, "a"); got.source != SourceRegistry {
			t.Fatalf("1.1 s after the question: %+v", got)
		}
	})
}

func TestCacheRemembersBriefly(t *testing.T) {
	for name, route := range map[string]*Route{
		"gone":     nil,
		"starting": inState(running("a", "1"), StateStarting),
		"paused":   inState(running("a", "1"), StatePaused), // Field report F11
		"deleted":  inState(running("a", "1"), StateDeleted),
		"unknown":  inState(running("a", "1"), StateUnknown),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := newTable()
				if route != nil {
					reg.put(route)
				}
				c := NewCache(reg, CacheOptions{Negative: time.Second})
				check := func(source Source) {
					t.Helper()
					got := ask(t, c, "a")
					if got.source != source || got.route != route || route == nil && !errors.Is(got.err, ErrGone) {
						t.Fatalf("got %+v, want source %v", got, source)
					}
				}
				check(SourceRegistry)
				time.Sleep(999 * time.Millisecond)
				check(SourceCache)
				reg.put(running("a", "2"))
				time.Sleep(time.Millisecond)
				if got := ask(t, c, "a"); got.err != nil || got.route.Lifecycle != "2" {
					t.Fatalf("after the negative time: %+v", got)
				}
			})
		})
	}
}

// Field report M12.
func TestCacheRefusesInvalidIDsUnasked(t *testing.T) {
	reg := newTable()
	c := NewCache(reg, CacheOptions{})
	for _, id := range []string{"", "*", "a:b", "../x", "x\r\nDEL", "{x}", "a b", "ä", "-a", string(make([]byte, 10_000))} {
		if got := ask(t, c, id); !errors.Is(got.err, ErrInvalidSandboxID) || errors.Is(got.err, ErrGone) {
			t.Errorf("Lookup(%.10q): %v", id, got.err)
		}
		if _, err := c.Fresh(t.Context(), id); !errors.Is(err, ErrInvalidSandboxID) {
			t.Errorf("Fresh(%.10q): %v", id, err)
		}
	}
	if n := reg.allLookups(); n != 0 {
		t.Fatalf("the registry was asked %d times", n)
	}
}

type emptyRegistry struct{}

func (emptyRegistry) Lookup(context.Context, string) (*Route, error) { return nil, nil }

// Field report F10: an answer without a route and without an error is no route.
func TestCacheTakesAnEmptyAnswerForMalformed(t *testing.T) {
	c := NewCache(emptyRegistry{}, CacheOptions{})
	if got := ask(t, c, "a"); !errors.Is(got.err, ErrMalformed) || errors.Is(got.err, ErrGone) {
		t.Fatalf("got %+v", got)
	}
}

func TestCacheAsksOnceForAThousandCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.delay = 100 * time.Millisecond
		c := NewCache(reg, CacheOptions{})
		var answers []<-chan answer
		for range 5000 {
			answers = append(answers, asking(c, "a"))
		}
		for _, ch := range answers {
			if got := <-ch; got.err != nil || got.route.SandboxID != "a" {
				t.Fatalf("got %+v", got)
			}
		}
		if n := reg.lookups("a"); n != 1 {
			t.Fatalf("%d lookups, want 1", n)
		}
		if s := c.Stats(); s.Coalesced != 4999 || s.InFlight != 0 {
			t.Fatalf("stats: %+v", s)
		}
	})
}

func TestCacheAsksAtMostOncePerSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable()
		for i := range 5000 {
			reg.put(running(fmt.Sprintf("s%d", i), "1"))
		}
		reg.delay = time.Millisecond
		c := NewCache(reg, CacheOptions{MaxLookups: 64})
		var answers []<-chan answer
		for i := range 5000 {
			answers = append(answers, asking(c, fmt.Sprintf("s%d", i)))
		}
		for _, ch := range answers {
			if got := <-ch; got.err != nil {
				t.Fatalf("got %+v", got)
			}
		}
		if n := reg.allLookups(); n > 5000 {
			t.Fatalf("%d lookups, want 5000 at most", n)
		}
	})
}

// Field report G04.
func TestCacheLookupOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.delay = 100 * time.Millisecond
		c := NewCache(reg, CacheOptions{})
		start := time.Now()
		var left sync.WaitGroup
		for range 1000 {
			left.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				defer cancel()
				if _, _, err := c.Lookup(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		left.Wait()
		if d := time.Since(start); d != 5*time.Millisecond {
			t.Fatalf("callers left after %v", d)
		}
		time.Sleep(100 * time.Millisecond)
		if got := ask(t, c, "a"); got.source != SourceCache {
			t.Fatalf("the lookup did not go on: %+v", got)
		}
		if n := reg.lookups("a"); n != 1 {
			t.Fatalf("%d lookups, want 1", n)
		}
	})
}

func TestCacheMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable()
		for i := range 30 {
			reg.put(running(fmt.Sprintf("s%d", i), "1"))
		}
		c := NewCache(reg, CacheOptions{MaxEntries: 20, TTL: time.Hour})
		for i := range 10 {
			ask(t, c, fmt.Sprintf("s%d", i))
		}
		// Made-up ids must not push out sandboxes that live.
		for i := range 1000 {
			ask(t, c, fmt.Sprintf("unknown%d", i))
		}
		if s := c.Stats(); s.Entries != 20 {
			t.Fatalf("%d entries, want 20", s.Entries)
		}
		for i := range 10 {
			if got := ask(t, c, fmt.Sprintf("s%d", i)); got.source != SourceCache {
				t.Fatalf("s%d was pushed out", i)
			}
		}
		for i := range 30 {
			ask(t, c, fmt.Sprintf("s%d", i))
		}
		if s := c.Stats(); s.Entries != 20 || s.Evictions != 990+20 {
			t.Fatalf("stats: %+v", s)
		}
		if got := ask(t, c, "s29"); got.source != SourceCache {
			t.Fatal("the newest was pushed out")
		}
		if got := ask(t, c, "s0"); got.source != SourceRegistry {
			t.Fatal("the oldest was kept")
		}
	})
}

func TestCacheSweepsWhatHasHadItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable()
		c := NewCache(reg, CacheOptions{})
		for i := range 1000 {
			ask(t, c, fmt.Sprintf("unknown%d", i))
		}
		time.Sleep(time.Second)
		for i := range 500 {
			ask(t, c, fmt.Sprintf("other%d", i))
		}
		if s := c.Stats(); s.Entries != 500 || s.Evictions != 0 {
			t.Fatalf("stats: %+v", s)
		}
	})
}

func TestCacheListsItsRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(newTable(running("a", "1"), running("b", "2")), CacheOptions{})
		ask(t, c, "a")
		time.Sleep(time.Second)
		ask(t, c, "b")
		ask(t, c, "none")
		var got []string
		for route, age := range c.Entries {
			got = append(got, fmt.Sprint(route.SandboxID, " ", age))
		}
		if fmt.Sprint(got) != "[a 1s b 0s]" {
			t.Fatalf("got %v", got)
		}
	})
}

// watched is a table that can push changes.
type watched struct {
	*table
	changes chan string
}

func (w watched) Watch(ctx context.Context, changed func(string)) {
	for {
		select {
		case id := <-w.changes:
			changed(id)
		case <-ctx.Done():
			return
		}
	}
}

func TestCacheRunListensToTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := watched{newTable(running("a", "1"), running("b", "1")), make(chan string)}
		c := NewCache(reg, CacheOptions{})
		ctx, stop := context.WithCancel(t.Context())
		go c.Run(ctx)
		ask(t, c, "a")
		ask(t, c, "b")

		reg.put(running("a", "2"))
		reg.changes <- "a"
		synctest.Wait()
		if got := ask(t, c, "a"); got.source != SourceRegistry || got.route.Lifecycle != "2" {
			t.Fatalf("changed: %+v", got)
		}
		if got := ask(t, c, "b"); got.source != SourceCache {
			t.Fatalf("unchanged: %+v", got)
		}
		reg.changes <- ""
		synctest.Wait()
		if got := ask(t, c, "b"); got.source != SourceRegistry {
			t.Fatalf("all changed: %+v", got)
		}
		stop() // synctest fails if Run goes on
	})
}

func TestCacheRunWithoutAWatcherOnlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(newTable(), CacheOptions{})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		c.Run(ctx)
		if ctx.Err() == nil {
			t.Fatal("Run returned early")
		}
	})
}

func TestCacheServesMemoryAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		reg.set(func(t *table) { t.delay = time.Minute })
		waiting := asking(c, "b")
		synctest.Wait()
		start := time.Now()
		c.Close()
		if got := <-waiting; !errors.Is(got.err, ErrUnavailable) || time.Since(start) != 0 {
			t.Fatalf("in progress: %+v after %v", got, time.Since(start))
		}
		if got := ask(t, c, "a"); got.source != SourceCache {
			t.Fatalf("known: %+v", got)
		}
		if got := ask(t, c, "c"); !errors.Is(got.err, ErrUnavailable) {
			t.Fatalf("unknown: %+v", got)
		}
	})
}

func TestCacheTellsWhatTheRegistryPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := watched{newTable(running("a", "1")), make(chan string)}
		c := NewCache(reg, CacheOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.Run(ctx)
		ask(t, c, "a")
		var told []string
		stop := c.OnChange(func(id string) {
			if got := ask(t, c, "a"); got.source != SourceRegistry {
				t.Errorf("told before the cache knew: %+v", got)
			}
			told = append(told, id)
		})
		reg.changes <- "a"
		synctest.Wait()
		reg.changes <- ""
		synctest.Wait()
		stop()
		reg.changes <- "a"
		synctest.Wait()
		if len(told) != 2 || told[0] != "a" || told[1] != "" {
			t.Errorf("told of %q", told)
		}
	})
}
