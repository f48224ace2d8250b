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

func TestARenewalThatFailsIsNotRepeatedBeforeTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable(running("a", "1"))
		c := NewCache(reg, CacheOptions{})
		ask(t, c, "a")
		reg.set(func(t *table) { t.err = errRefusedConn })
		time.Sleep(8 * time.Second)
		use(t, c, "a", 10*time.Millisecond, 1900*time.Millisecond)
		if n := reg.lookups("a"); n != 2 {
			t.Errorf("%d lookups", n)
		}
		if got := ask(t, c, "a"); got.source != SourceCache {
			t.Errorf("within its time it came from %v", got.source)
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
// use is over.
func TestARegistryThatBeginsToHangDelaysNobodyWhoUsesARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable()
		for i := range 100 {
			reg.put(running(fmt.Sprintf("s%d", i), "1"))
		}
		c := NewCache(reg, CacheOptions{})
		defer c.Close()
		all := func(length time.Duration) (worst time.Duration) {
			for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				for i := range 100 {
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
}
