package handlers

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-e2b/gateway/routing"
)

// ErrNotServed is a name that no certificate is for.
var ErrNotServed = errors.New("the gateway serves nothing there")

// Certify reports whether a certificate for the name is worth having: it is a
// shared host of a domain, or the host of a sandbox that lives, and of a port that
// can be reached. Nil: it is. ErrNotServed: it is not, the registry has said so.
// Any other error: nobody can say at the moment.
//
// Whoever opens a connection can ask, for any name. It takes one lookup at most,
// from memory where there is an answer, else as a stranger's, of which a bounded
// number run and wait.
func (g *Gateway) Certify(ctx context.Context, name string) error {
	host, err := g.hosts.Read(name)
	switch {
	case err != nil, host.Kind == routing.OtherHost:
		return ErrNotServed
	case host.Kind == routing.SharedHost:
		return nil
	}
	target := g.withoutClientID(ctx, host.Target)
	route, _, err := g.opt.Routes.LookupFor(ctx, routing.Stranger, target.SandboxID)
	switch {
	case errors.Is(err, routing.ErrGone):
		return ErrNotServed
	case err != nil:
		return fmt.Errorf("looking sandbox %s up: %w", target.SandboxID, err)
	case route.State != routing.StateRunning && route.State != routing.StateStarting:
		return ErrNotServed
	}
	cluster := g.clusters[route.Cluster]
	if cluster == nil {
		return errUnknownCluster
	}
	if route.State != routing.StateRunning || cluster.LacksMapping(route, target.Port) {
		return nil // whoever opens a connection uses no sandbox, so ROCK is not asked
	}
	if _, err := cluster.DoorTo(route, target.Port); err != nil {
		return ErrNotServed
	}
	return nil
}
