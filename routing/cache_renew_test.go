package routing

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// use asks for a sandbox once every step until the time is over, and returns the longest wait.
func use(t *testing.T, c *Cache, id string, step, length time.Duration) (worst time.Duration) {
	t.Helper()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(step) {
		begun := time.Now()
		ask(t, c, id)
		worst = max(worst, time.Since(begun))
	}
	return worst
}

func TestWhoUsesARouteNeverWaitsForItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		reg.delay = 150 * time.Millisecond
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		if worst := use(t, c, "a", 100*time.Millisecond, time.Minute); worst != 0 {
			t.Errorf("one waited %v", worst)
		}
		// Once before, and every 7.5s and the step.
		if n := reg.lookups("a"); n < 7 || n > 9 {
			t.Errorf("%d lookups in a minute", n)
		}
	})
}

func TestARouteThatIsNotUsedIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		time.Sleep(7 * time.Second)
		ask(t, c, "a") // too early for that
		time.Sleep(time.Minute)
		if n := reg.lookups("a"); n != 1 {
			t.Errorf("%d lookups", n)
		}
	})
}

func TestARouteIsRenewedOnceHoweverManyUseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		reg.set(func(t *table) { t.delay = time.Second / 2 })
		time.Sleep(8 * time.Second)
		for range 1000 {
			ask(t, c, "a")
		}
		time.Sleep(time.Second)
		if n := reg.lookups("a"); n != 2 {
			t.Errorf("%d lookups", n)
		}
	})
}

func TestARenewalThatFailsIsTriedAgainAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		reg.set(func(t *table) { t.err = errRefusedConn })
		begun := time.Now()
		for _, tc := range []struct {
			at      time.Duration
			lookups int
		}{{8 * time.Second, 2}, {8999 * time.Millisecond, 2}, {9 * time.Second, 3}, {9500 * time.Millisecond, 3}} {
			time.Sleep(tc.at - time.Since(begun))
			if got := ask(t, c, "a"); got.source != SourceCache {
				t.Errorf("after %v it came from %v", tc.at, got.source)
			}
			synctest.Wait()
			if n := reg.lookups("a"); n != tc.lookups {
				t.Errorf("after %v: %d lookups, want %d", tc.at, n, tc.lookups)
			}
		}
	})
}

func TestASandboxThatIsGoneIsGoneWhenItsRouteIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		reg.set(func(t *table) { delete(t.routes, "a") })
		time.Sleep(8 * time.Second)
		ask(t, c, "a")
		synctest.Wait()
		if got := ask(t, c, "a"); got.err != ErrGone {
			t.Errorf("%+v", got)
		}
	})
}

// A registry that hangs is found out by the renewals, before the time of any route in
// use is over, and is not forgotten before it is asked again.
func TestARegistryThatBeginsToHangDelaysNobodyWhoUsesARoute(t *testing.T) {
	for _, sandboxes := range []int{failuresInARow, 64, 100} {
		t.Run(fmt.Sprint(sandboxes, " in use"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := newTable()
				for i := range sandboxes {
					reg.put(running(fmt.Sprintf("s%d", i), "1"))
				}
				c := NewCache(reg, CacheOptions{})
				defer c.Close()
				all := func(length time.Duration) (worst time.Duration) {
					for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
						for i := range sandboxes {
							begun := time.Now()
							ask(t, c, fmt.Sprintf("s%d", i))
							worst = max(worst, time.Since(begun))
						}
					}
					return worst
				}
				all(30 * time.Second)
				reg.set(func(t *table) { t.delay = time.Hour }) // drops every packet
				if worst := all(time.Minute); worst != 0 {
					t.Errorf("one waited %v", worst)
				}
			})
		})
	}
}
