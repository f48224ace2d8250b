package routing

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What happens when much is outdated at once: sandboxes are killed by the thousand, or
// the connection over which changes are pushed was lost, so that anything may be.

// counted is a registry that answers after 1 ms and knows how many ask at a time.
type counted struct {
	now, most atomic.Int64
	lookups   sync.Map // by sandbox, *atomic.Int64
}

func (r *counted) Lookup(_ context.Context, id string) (*Route, error) {
	if n := r.now.Add(1); n > r.most.Load() {
		r.most.Store(n) // only ever too small, and that not by much
	}
	defer r.now.Add(-1)
	n, _ := r.lookups.LoadOrStore(id, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	time.Sleep(time.Millisecond)
	return running(id, "1"), nil
}

// each fails the test unless each of the sandboxes was looked up so often.
func (r *counted) each(t *testing.T, ids []string, want int64) {
	t.Helper()
	for _, id := range ids {
		n, ok := r.lookups.Load(id)
		if !ok || n.(*atomic.Int64).Load() != want {
			t.Fatalf("%s was looked up %v times, want %d", id, n, want)
		}
	}
	if most := r.most.Load(); most > 64 {
		t.Fatalf("%d lookups at a time", most)
	}
}

// remembering makes a cache that remembers sandboxes.
func remembering(t *testing.T, n int) (*counted, *Cache, []string) {
	t.Helper()
	reg := new(counted)
	c := NewCache(reg, CacheOptions{TTL: time.Hour})
	ids := make([]string, n)
	var callers sync.WaitGroup
	for i := range ids {
		ids[i] = fmt.Sprint("s", i)
		callers.Go(func() { ask(t, c, ids[i]) })
	}
	callers.Wait()
	reg.each(t, ids, 1)
	return reg, c, ids
}

func TestAStormOfInvalidationsCostsOneLookupForEachSandboxThatIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sandboxes, killed, used = 3000, 2000, 1000
		reg, c, ids := remembering(t, sandboxes)
		before := c.Stats()
		for range 50 { // 100,000 of them, most of them about what is not there any more
			for _, id := range ids[:killed] {
				c.Invalidate(id)
			}
		}
		var callers sync.WaitGroup
		for _, id := range ids[killed-used:] {
			for range 5 {
				callers.Go(func() { ask(t, c, id) })
			}
		}
		callers.Wait()
		reg.each(t, ids[:killed-used], 1)
		reg.each(t, ids[killed-used:killed], 2)
		reg.each(t, ids[killed:], 1)
		if s := c.Stats(); s.Invalidations-before.Invalidations != 50*killed || s.Hits-before.Hits != 5*(sandboxes-killed) ||
			s.StaleServed != 0 || s.Entries != sandboxes-killed+used {
			t.Fatalf("stats: %+v", s)
		}
	})
}

// After the watch was lost: nothing happens at once, what is used is looked up once,
// 64 at a time, and meanwhile nobody waits for longer than his patience.
func TestWhenEverythingIsInvalidatedKnownSandboxesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sandboxes = 5000 // 64 at a time take 79 ms
		reg, c, ids := remembering(t, sandboxes)
		c.Invalidate("")
		synctest.Wait()
		reg.each(t, ids, 1)

		begun := time.Now()
		for round := 0; c.Stats().Lookups < 2*sandboxes; round++ {
			var callers sync.WaitGroup
			for _, id := range ids {
				callers.Go(func() {
					asked := time.Now()
					if got := ask(t, c, id); got.err != nil || time.Since(asked) > 200*time.Millisecond {
						t.Errorf("%s: %v after %v", id, got.err, time.Since(asked))
					}
				})
			}
			callers.Wait()
			if round > 1000 {
				t.Fatalf("still not all are renewed: %+v", c.Stats())
			}
			time.Sleep(5 * time.Millisecond)
		}
		synctest.Wait()
		t.Logf("all were renewed after %v, %d answers were stale", time.Since(begun), c.Stats().StaleServed)
		time.Sleep(time.Second)
		reg.each(t, ids, 2)
	})
}

// Those who can be served do not stand before those who cannot.
func TestWhenEverythingIsInvalidatedNewSandboxesWaitForFewOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sandboxes = 5000
		reg, c, ids := remembering(t, sandboxes)
		c.Invalidate("")
		var callers sync.WaitGroup
		for _, id := range ids {
			callers.Go(func() { ask(t, c, id) })
		}
		synctest.Wait()
		if n := c.Stats().InFlight; n > 64*17 {
			t.Errorf("%d lookups wait or run", n)
		}
		asked := time.Now()
		if got := ask(t, c, "new"); got.err != nil || got.source != SourceRegistry {
			t.Fatalf("got %+v", got)
		}
		if d := time.Since(asked); d > 20*time.Millisecond {
			t.Errorf("a new sandbox waited for %v", d)
		}
		callers.Wait()
		time.Sleep(time.Second)
		reg.each(t, []string{"new"}, 1)
	})
}
