package routing

import (
	"context"
	"errors"
)

// Extender is implemented by registries that can push back the end of a sandbox that
// is in use: its timeout begins anew, as ROCK itself has it with every call that it
// sees. It never ends earlier than it would have.
//
// Errors: [ErrGone] when there is nothing to push back, [errors.ErrUnsupported] when
// the registry of route's cluster cannot, and others when it is not known whether it
// was done.
type Extender interface {
	Extend(ctx context.Context, route *Route) error
}

// Extend implements [Extender] by the member that holds the sandbox.
func (u *Union) Extend(ctx context.Context, route *Route) error {
	for _, m := range u.members {
		if e, ok := m.Registry.(Extender); ok && m.Cluster == route.Cluster {
			return e.Extend(ctx, route)
		}
	}
	return errors.ErrUnsupported
}

// Extends reports whether the end of a sandbox can be pushed back for any cluster.
func (u *Union) Extends() bool {
	for _, m := range u.members {
		if _, ok := m.Registry.(Extender); ok {
			return true
		}
	}
	return false
}

// Extend implements [Extender] by the cache's registry. What is in memory has no part in
// it.
func (c *Cache) Extend(ctx context.Context, route *Route) error {
	if e, ok := c.reg.(Extender); ok {
		return e.Extend(ctx, route)
	}
	return errors.ErrUnsupported
}

// Extends reports whether Extend can do anything.
func (c *Cache) Extends() bool {
	if u, ok := c.reg.(interface{ Extends() bool }); ok {
		return u.Extends()
	}
	_, ok := c.reg.(Extender)
	return ok
}
