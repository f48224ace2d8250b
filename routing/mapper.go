package routing

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Not every registry can tell with a lookup where a sandbox's ports are. One that must
// ask a second question for it, and one with effects, is asked only for a call that
// needs the answer.

// Mapper is implemented by registries whose routes may have [Route.PortsUnknown]. Map
// returns a copy of such a route with what is missing. By then the sandbox may be found
// not to run: the state of what is returned counts.
//
// Whoever asks uses the sandbox: its timeout may begin anew.
//
// Errors: [ErrGone] when the sandbox of the route is not there any more,
// [errors.ErrUnsupported] when nobody can tell, and others for a don't know.
type Mapper interface {
	Map(ctx context.Context, route *Route) (*Route, error)
}

// Map implements [Mapper] by the member that holds the sandbox.
func (u *Union) Map(ctx context.Context, route *Route) (*Route, error) {
	for _, m := range u.members {
		if by, ok := m.Registry.(Mapper); ok && m.Cluster == route.Cluster {
			return by.Map(ctx, route)
		}
	}
	return nil, errors.ErrUnsupported
}

// mapTimeout bounds a question for ports. ROCK looks into the sandbox for its answer.
const mapTimeout = 10 * time.Second

// mapping is a question for ports on its way, shared by everybody who needs its answer.
type mapping struct {
	done  chan struct{} // closed when route and err are set
	route *Route
	err   error
}

// errReplaced is what becomes of a registry's ErrGone: two of its answers contradict each
// other, and only a lookup may say which of them is right.
var errReplaced = fmt.Errorf("%w: the sandbox was not found when it was asked for its ports", ErrUnavailable)

// Map returns route, or if its ports are unknown one with them, as the cache's [Mapper]
// tells it. The answer is remembered in place of the route, for as long as the route
// would have been. For one route there is one question at a time; like a lookup it goes
// on without a caller that leaves.
//
// Every error is a don't know or the cause of ctx's end; after ErrGone the route is
// forgotten, so that the next lookup asks.
func (c *Cache) Map(ctx context.Context, route *Route) (*Route, error) {
	if !route.PortsUnknown {
		return route, nil
	}
	m, mapped, err := c.joinMapping(route)
	if m == nil {
		return mapped, err
	}
	select {
	case <-m.done:
		return m.route, m.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// joinMapping returns the question for the ports of route, in progress or put here, or
// else the answer, if it was stored since the caller looked.
func (c *Cache) joinMapping(route *Route) (*mapping, *Route, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries.load(route.SandboxID); e != nil && e.route != nil && e.former == route && c.now() < e.expires {
		return nil, e.route, nil
	}
	if m := c.mappings[route]; m != nil {
		return m, nil, nil
	}
	if c.ctx.Err() != nil {
		return nil, nil, errClosed
	}
	m := &mapping{done: make(chan struct{})}
	c.mappings[route] = m
	go c.askPorts(route, m)
	return m, nil, nil
}

// askPorts puts the question and publishes the answer. It is remembered if the route is
// still the one that is: else something newer is known.
func (c *Cache) askPorts(route *Route, m *mapping) {
	ctx, cancel := context.WithTimeout(c.ctx, mapTimeout)
	defer cancel()
	asked := c.now()
	mapped, err := c.portsOf(ctx, route)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mappings, route)
	e := c.entries.load(route.SandboxID)
	current := e != nil && e.route == route
	switch {
	case errors.Is(err, ErrGone):
		if current {
			c.drop(route.SandboxID)
		}
		mapped, err = nil, errReplaced
	case err == nil && current:
		if mapped.State == StateRunning {
			asked = e.asked // a second question does not make the first answer newer
		}
		c.store(&entry{sandboxID: e.sandboxID, route: mapped, former: route, epoch: e.epoch, asked: asked})
	}
	m.route, m.err = mapped, err
	close(m.done)
}

// portsOf asks the registry. One that cannot tell has told all that there is.
func (c *Cache) portsOf(ctx context.Context, route *Route) (*Route, error) {
	mapped, err := (*Route)(nil), errors.ErrUnsupported
	if by, ok := c.reg.(Mapper); ok {
		mapped, err = by.Map(ctx, route)
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		same := *route
		same.PortsUnknown = false
		return &same, nil
	case err != nil:
		return nil, err
	case mapped == nil || mapped.PortsUnknown:
		return nil, fmt.Errorf("%w: it is empty", ErrMalformed)
	}
	return mapped, nil
}
