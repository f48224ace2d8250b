package routing

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// atlas is a registry that tells ports only when it is asked for them.
type atlas struct {
	*table
	mu    sync.Mutex
	state State
	err   error
	delay time.Duration
	asked int
}

func newAtlas() *atlas {
	return &atlas{table: newTable(unmapped("1")), state: StateRunning}
}

func unmapped(lifecycle string) *Route {
	r := running("a", lifecycle)
	r.Ports, r.PortsUnknown = Ports{}, true
	return r
}

func (a *atlas) Map(ctx context.Context, route *Route) (*Route, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	state, err := a.state, a.err
	if pause(ctx, a.delay, false) != nil {
		return nil, ErrUnavailable
	}
	if err != nil {
		return nil, err
	}
	mapped := *route
	mapped.PortsUnknown, mapped.State, mapped.Ports = false, state, PortsOf(map[uint16]uint16{8080: 31003})
	return &mapped, nil
}

func (a *atlas) say(state State, err error) { a.state, a.err = state, err }

func mapIt(t *testing.T, c *Cache, route *Route) *Route {
	t.Helper()
	mapped, err := c.Map(t.Context(), route)
	if err != nil || mapped.PortsUnknown {
		t.Fatalf("%+v, %v", mapped, err)
	}
	return mapped
}

func TestPortsAreAskedForOnceAndRememberedWithTheRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAtlas()
		a.delay = 3 * time.Second
		c := NewCache(NewUnion([]Member{{Cluster: "test", Registry: a}}), CacheOptions{})
		first := ask(t, c, "a").route
		if !first.PortsUnknown || a.asked != 0 {
			t.Fatalf("%+v after %d questions", first, a.asked)
		}
		time.Sleep(5 * time.Second)
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				if mapped, err := c.Map(t.Context(), first); err != nil || mapped.Ports.String() != "8080:31003 " || mapped.Cluster != "test" {
					t.Errorf("%+v, %v", mapped, err)
				}
			})
		}
		callers.Wait()
		late := mapIt(t, c, first) // of a caller that had the route before
		if got := ask(t, c, "a"); got.route != late || got.source != SourceCache || a.asked != 1 || a.lookups("a") != 1 {
			t.Errorf("%+v after %d questions and %d lookups", got, a.asked, a.lookups("a"))
		}
		time.Sleep(2 * time.Second) // no longer than the route
		if got := ask(t, c, "a"); !got.route.PortsUnknown || a.lookups("a") != 2 {
			t.Errorf("%+v after %d lookups", got, a.lookups("a"))
		}
	})
}

func TestAMappedRouteIsTheLastKnownOneInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAtlas()
		c := NewCache(a, CacheOptions{})
		mapped := mapIt(t, c, ask(t, c, "a").route)
		a.set(func(t *table) { t.err = ErrUnavailable })
		time.Sleep(11 * time.Second)
		if got := ask(t, c, "a"); got.route != mapped || got.source != SourceStale {
			t.Errorf("%+v", got)
		}
	})
}

func TestAStartThatShowsWithThePortsIsRememberedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAtlas()
		a.say(StateStarting, nil)
		c := NewCache(a, CacheOptions{})
		mapIt(t, c, ask(t, c, "a").route)
		if got := ask(t, c, "a"); got.route.State != StateStarting || a.lookups("a") != 1 {
			t.Errorf("%+v", got.route)
		}
		time.Sleep(time.Second)
		a.set(func(t *table) { t.err = ErrUnavailable })
		if _, _, err := c.Lookup(t.Context(), "a"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("nobody may be sent there: %v", err)
		}
	})
}

func TestAFailureToTellPortsIsRememberedByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAtlas()
		c := NewCache(a, CacheOptions{})
		route := ask(t, c, "a").route
		a.say(0, ErrUnavailable)
		if _, err := c.Map(t.Context(), route); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		a.say(StateRunning, nil)
		mapIt(t, c, route)
		if a.asked != 2 || a.lookups("a") != 1 {
			t.Errorf("%d questions, %d lookups", a.asked, a.lookups("a"))
		}
	})
}

// Only a lookup may say that a sandbox is gone.
func TestASandboxThatIsNotThereWhenAskedForItsPortsIsLookedUpAgain(t *testing.T) {
	a := newAtlas()
	a.say(0, ErrGone)
	c := NewCache(a, CacheOptions{})
	if _, err := c.Map(t.Context(), ask(t, c, "a").route); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrGone) {
		t.Error(err)
	}
	if ask(t, c, "a"); a.lookups("a") != 2 {
		t.Errorf("%d lookups", a.lookups("a"))
	}
}

func TestPortsOfWhatIsNotTheRouteAnyMoreAreNotRemembered(t *testing.T) {
	for name, change := range map[string]func(*Cache, *atlas){
		"invalidated": func(c *Cache, _ *atlas) { c.Invalidate("a") },
		"deleted":     func(c *Cache, _ *atlas) { c.Forget("a", "") },
		"renewed": func(c *Cache, a *atlas) {
			a.put(unmapped("2"))
			if _, err := c.Fresh(context.Background(), "a"); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAtlas()
				a.delay = time.Second / 2
				c := NewCache(a, CacheOptions{})
				route := ask(t, c, "a").route
				mapping := make(chan struct{})
				go func() {
					defer close(mapping)
					_, _ = c.Map(t.Context(), route)
				}()
				synctest.Wait()
				change(c, a)
				<-mapping
				if got, _, err := c.Lookup(t.Context(), "a"); err == nil && !got.PortsUnknown {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestACallerMayLeaveAQuestionForPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAtlas()
		a.delay = time.Hour
		c := NewCache(a, CacheOptions{})
		route := ask(t, c, "a").route
		left := errors.New("left")
		ctx, leave := context.WithCancelCause(t.Context())
		leave(left)
		if _, err := c.Map(ctx, route); !errors.Is(err, left) {
			t.Error(err)
		}
		begun := time.Now()
		if _, err := c.Map(t.Context(), route); !errors.Is(err, ErrUnavailable) || time.Since(begun) != mapTimeout || a.asked != 1 {
			t.Errorf("%v after %v and %d questions", err, time.Since(begun), a.asked)
		}
		c.Close()
		if _, err := c.Map(t.Context(), route); !errors.Is(err, ErrUnavailable) || a.asked != 1 {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestARegistryThatCannotTellPortsHasTold(t *testing.T) {
	c := NewCache(NewUnion([]Member{{Cluster: "test", Registry: newTable(unmapped("1"))}}), CacheOptions{})
	if mapped := mapIt(t, c, ask(t, c, "a").route); mapped.Ports.Len() != 0 || mapped.State != StateRunning {
		t.Errorf("%+v", mapped)
	}
	known := running("b", "1")
	if mapped := mapIt(t, c, known); mapped != known {
		t.Error("a route with its ports is another one now")
	}
}

func TestAHitOfAMappedRouteAllocatesNothing(t *testing.T) {
	a := newAtlas()
	c := NewCache(a, CacheOptions{TTL: 1 << 50})
	mapIt(t, c, ask(t, c, "a").route)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		route, _, _ := c.Lookup(ctx, "a")
		keep, _ = c.Map(ctx, route)
	}); n != 0 || a.asked != 1 {
		t.Errorf("%v allocations, %d questions", n, a.asked)
	}
}
