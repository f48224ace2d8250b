package handlers

import (
	"context"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// awaitReady waits until a sandbox that is starting runs, and returns its route
// then. The failure's cause is cause.OK when there is one to go by.
//
// However many wait for a sandbox, one probe asks for it. They wait for
// Options.ReadyTimeout at most, Options.ReadyWaiting of them at a time. What ends
// the wait before that is the end of the start, well or not, a call that ends the
// sandbox, a drain, and ctx, of which an [ended] is the cause that is told.
//
// Nothing was done when it fails. err is for logs.
func (g *Gateway) awaitReady(ctx context.Context, route *routing.Route) (_ *routing.Route, f cause.Failure, err error) {
	f = cause.Failure{Cause: cause.SandboxStarting, SandboxID: route.SandboxID}
	if g.opt.ReadyTimeout < 0 {
		return nil, f, nil
	}
	defer g.countWait(route.Cluster)(&f)
	p, refusal := g.ready.join(route)
	if p == nil {
		f.Cause = refusal
		return nil, f, nil
	}
	defer g.ready.leave(p)
	limit := time.NewTimer(g.opt.ReadyTimeout)
	defer limit.Stop()
	select {
	case <-p.done:
		f.Cause = p.found.why
		return p.found.route, f, p.found.err
	case <-limit.C:
		f.Cause, err = p.soFar()
		return nil, f, err
	case <-ctx.Done():
		f.Cause = cause.ClientGone
		if by := endedBy(ctx); by != cause.OK {
			f.Cause = by
		}
		return nil, f, context.Cause(ctx)
	}
}

// startup is how a start has ended, or how it stands.
type startup struct {
	route *routing.Route // to go by, if why is cause.OK
	why   cause.Cause
	err   error // for logs
}

// startOf is what the registry's answer says of a start. over reports that the
// sandbox will not be ready by waiting for it, or is. Whatever is no clear answer,
// such as an outage or half a record, is no end.
func (g *Gateway) startOf(ctx context.Context, route *routing.Route, err error) (_ startup, over bool) {
	why := causeOfLookup(ctx, route, err)
	s := startup{route, why, behind(why, route, err)}
	switch s.why {
	case cause.OK:
		// On Kubernetes it may be "running" before it has an address.
		if c := g.clusters[route.Cluster]; c != nil && c.Mode == routing.ModeDirect && !route.Host.IsValid() {
			s.why = cause.RouteUnusable
			return s, false
		}
		return s, true
	case cause.SandboxStarting, cause.RegistryUnavailable, cause.RouteUnusable, cause.ClientGone:
		return s, false
	}
	return s, true
}
