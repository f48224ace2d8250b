package routing

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestARouteInUseIsRenewedInTheLastQuarterOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{TTL: 10 * time.Second})
		begun := time.Now()
		for _, tc := range []struct {
			at        time.Duration
			lifecycle string // that is served
			lookups   int    // so far, with what the call gives rise to
		}{
			{0, "1", 1},
			{7500 * time.Millisecond, "1", 1},
			{7501 * time.Millisecond, "1", 2}, // nobody waits for it
			{7502 * time.Millisecond, "2", 2},
			{14 * time.Second, "2", 2},
			{16 * time.Second, "2", 3},
		} {
			time.Sleep(tc.at - time.Since(begun))
			got := ask(t, c, "a")
			if cached := tc.at > 0; got.err != nil || got.route.Lifecycle != tc.lifecycle || (got.source == SourceCache) != cached {
				t.Errorf("after %v: %+v", tc.at, got)
			}
			reg.put(running("a", "2"))
			synctest.Wait()
			if n := reg.lookups("a"); n != tc.lookups {
				t.Errorf("after %v: %d lookups, want %d", tc.at, n, tc.lookups)
			}
		}
	})
}

func TestWhatNobodyUsesIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("used", "1"), running("unused", "1"), inState(running("paused", "1"), StatePaused))
		c := NewCache(reg, CacheOptions{TTL: 10 * time.Second, Negative: 10 * time.Second})
		for _, id := range []string{"used", "unused", "paused"} {
			ask(t, c, id)
		}
		time.Sleep(9 * time.Second)
		for _, id := range []string{"used", "paused"} {
			ask(t, c, id)
		}
		synctest.Wait()
		for id, want := range map[string]int{"used": 2, "unused": 1, "paused": 1} {
			if n := reg.lookups(id); n != want {
				t.Errorf("%s was looked up %d times, want %d", id, n, want)
			}
		}
	})
}

func TestARenewalThatFailsIsTriedAgainAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{TTL: 10 * time.Second})
		ask(t, c, "a")
		reg.set(func(t *table) { t.err = ErrUnavailable })
		begun := time.Now()
		for _, tc := range []struct {
			at      time.Duration
			lookups int
		}{{8 * time.Second, 2}, {8999 * time.Millisecond, 2}, {9 * time.Second, 3}, {9500 * time.Millisecond, 3}} {
			time.Sleep(tc.at - time.Since(begun))
			if got := ask(t, c, "a"); got.source != SourceCache {
				t.Errorf("after %v: %+v", tc.at, got)
			}
			synctest.Wait()
			if n := reg.lookups("a"); n != tc.lookups {
				t.Errorf("after %v: %d lookups, want %d", tc.at, n, tc.lookups)
			}
		}
	})
}

// The lookups of routes in use fail before their time is over: at the end of it
// everybody knows that, where more than a few are in use.
func TestNobodyWaitsWhenTheRegistryBeginsToHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"), running("b", "1"), running("c", "1"))
		c := NewCache(reg, CacheOptions{TTL: 10 * time.Second})
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			ask(t, c, id)
		}
		reg.set(func(t *table) { t.delay = time.Hour })
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			for _, id := range ids {
				asked := time.Now()
				if got := ask(t, c, id); got.err != nil || time.Since(asked) > 0 {
					t.Errorf("%+v after %v", got, time.Since(asked))
				}
			}
		}
		c.Close()
	})
}
