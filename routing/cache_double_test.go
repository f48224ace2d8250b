package routing

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// table is a registry that a test can change, stop and slow down.
type table struct {
	mu     sync.Mutex
	routes map[string]*Route
	err    error         // answer to everything
	delay  time.Duration // before the answer is read
	lag    time.Duration // after the answer was read
	deaf   bool          // ignores its context
	asked  map[string]int
}

func newTable(routes ...*Route) *table {
	t := &table{routes: map[string]*Route{}, asked: map[string]int{}}
	for _, r := range routes {
		t.routes[r.SandboxID] = r
	}
	return t
}

func (t *table) Lookup(ctx context.Context, id string) (*Route, error) {
	t.mu.Lock()
	delay, lag, deaf := t.delay, t.lag, t.deaf
	t.asked[id]++
	t.mu.Unlock()
	if err := pause(ctx, delay, deaf); err != nil {
		return nil, err
	}
	t.mu.Lock()
	route, err := t.routes[id], t.err
	t.mu.Unlock()
	if err := pause(ctx, lag, deaf); err != nil {
		return nil, err
	}
	switch {
	case err != nil:
		return nil, err
	case route == nil:
		return nil, ErrGone
	}
	return route, nil
}

func pause(ctx context.Context, d time.Duration, deaf bool) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	done := ctx.Done()
	if deaf {
		done = nil
	}
	select {
	case <-timer.C:
		return nil
	case <-done:
		return ErrUnavailable
	}
}

func (t *table) set(change func(t *table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t)
}

func (t *table) put(r *Route) { t.set(func(t *table) { t.routes[r.SandboxID] = r }) }

func (t *table) lookups(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked[id]
}

func (t *table) allLookups() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, k := range t.asked {
		n += k
	}
	return n
}

// running makes a route whose lifecycle is as given.
func running(id, lifecycle string) *Route {
	return &Route{
		SandboxID: id, State: StateRunning, Lifecycle: lifecycle,
		Host: netip.MustParseAddr("10.0.0.5"), Ports: PortsOf(map[uint16]uint16{8080: 31003}),
	}
}

func inState(r *Route, s State) *Route { r.State = s; return r }

// answer is what a Lookup returned.
type answer struct {
	route  *Route
	source Source
	err    error
}

func ask(t *testing.T, c *Cache, id string) answer {
	t.Helper()
	route, source, err := c.Lookup(t.Context(), id)
	if (route == nil) == (err == nil) {
		t.Fatalf("Lookup(%q) returned route %v and error %v", id, route, err)
	}
	return answer{route, source, err}
}

// asking starts a Lookup and returns where its answer will be.
func asking(c *Cache, id string) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		route, source, err := c.Lookup(context.Background(), id)
		ch <- answer{route, source, err}
	}()
	return ch
}

func freshening(c *Cache, id string) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		route, err := c.Fresh(context.Background(), id)
		ch <- answer{route, SourceRegistry, err}
	}()
	return ch
}
