package handlers

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// domainFor is the domain that the client of r is told: the one that the host of
// the request belongs to, which this client can reach, else the first. "" without
// domains.
func (g *Gateway) domainFor(r *http.Request) string { return g.hosts.DomainFor(r.Host).String() }

// operationOf is the call that r makes. Where the host, or else the headers, name
// a port that is not envd's, its method and path are the app's own business.
func operationOf(r *http.Request, host routing.Host, planes Planes) routing.Operation {
	switch {
	case planes&Data == 0:
	case host.Kind == routing.PreviewHost:
		if host.Target.Port != routing.EnvdPort {
			return routing.App
		}
	case routing.AsksForApp(r.Header):
		return routing.App
	}
	return routing.Classify(r.Method, r.URL.Path)
}

func isApp(op routing.Operation) bool {
	return op.Name == routing.App.Name && op.Plane == routing.DataPlane
}

// targetOf is whom a request of the data plane is for.
func (g *Gateway) targetOf(r *http.Request, host routing.Host) (routing.Target, error) {
	target, err := routing.TargetOf(host, r.Header)
	if err != nil || host.Kind != routing.PreviewHost {
		return target, err
	}
	return g.withoutClientID(r.Context(), target), nil
}

// withoutClientID is the target itself, unless the registry knows no sandbox with
// its id and an old SDK may have appended something to it (field report E05). A
// registry that cannot say leaves it as it is.
func (g *Gateway) withoutClientID(ctx context.Context, target routing.Target) routing.Target {
	short, ok := target.WithoutClientID()
	if !ok {
		return target
	}
	route, _, err := g.opt.Routes.LookupFor(ctx, routing.Stranger, target.SandboxID)
	if errors.Is(err, routing.ErrGone) || err == nil && route.State == routing.StateDeleted {
		return short
	}
	return target
}

// refusalOfHost is what a request is told whose host cannot be served. 421 says
// that another server may (RFC 9110 section 15.5.20).
func refusalOfHost(err error) cause.Failure {
	f := cause.Failure{Cause: cause.BadRequest, Message: err.Error()}
	if errors.Is(err, routing.ErrForeignHost) {
		f.Status = http.StatusMisdirectedRequest
	}
	return f
}

// signedNeedsID is for whoever opens a signed URL on a host that all sandboxes
// share (field report J13). There is no sandbox in it, and none is guessed.
const signedNeedsID = "missing header " + routing.HeaderSandboxID + ": a signed URL names no sandbox on this host. Set E2B_DOMAIN and not E2B_SANDBOX_URL, " +
	"so that the SDK puts the sandbox into the host of the URL, or send the headers E2b-Sandbox-Id and E2b-Sandbox-Port along"

// refusalOfTarget is what a request is told of which nobody can say whom it is for.
func refusalOfTarget(r *http.Request, op routing.Operation, err error) cause.Failure {
	f := cause.Failure{Cause: cause.BadRequest, Message: err.Error()}
	if errors.Is(err, routing.ErrNoSandboxID) && op.Name == filesCall && strings.Contains(r.URL.RawQuery, "signature=") {
		f.Message = signedNeedsID
	}
	return f
}
