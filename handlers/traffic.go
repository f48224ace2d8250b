package handlers

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Who may use a sandbox, and above all its ports that are not envd's. Those are
// for visitors, as with E2B, unless the operator or the creator of the sandbox
// wants a token asked for. Envd's port never is for visitors.

var (
	trafficTokenMissing = cause.Failure{Cause: cause.TrafficTokenMissing}
	trafficTokenWrong   = cause.Failure{Cause: cause.TrafficTokenWrong}
	trafficTokenTwice   = cause.Failure{Cause: cause.BadRequest,
		Message: "The header e2b-traffic-access-token must be sent at most once, with one value"}
	// noTokens is for a sandbox whose creator wants a token asked for, where
	// nobody can have one. It is the creator's word against everybody's.
	noTokens = cause.Failure{Cause: cause.Forbidden,
		Message: "The ports of this sandbox are private, and this gateway has no keys that could open them"}
)

var (
	errTrafficTokenWrong = errors.New("the traffic token was not made here for this sandbox")
	errPrivate           = errors.New("the sandbox is private, and keys are off")
)

// examine looks at what a request carries, before anything else is asked than, for
// the port of an app that may be open, whether its sandbox is private. The
// failure's cause is cause.OK when the request may go on to lookup.
func (g *Gateway) examine(r *http.Request, op routing.Operation, target routing.Target) (proof, cause.Failure, error) {
	a := g.opt.Access
	if isApp(op) && a.opensPorts() {
		switch route := g.visited(r.Context(), target.SandboxID); {
		case route == nil || !route.Private:
			return proof{kind: proofVisitor}, cause.Failure{}, nil
		case a == nil:
			return proof{}, noTokens, errPrivate
		}
	}
	return a.examine(r, op, target)
}

// opensPorts reports that visitors may use the ports of a sandbox that are not
// envd's, as far as the operator is concerned.
func (a *Access) opensPorts() bool { return a == nil || a.PublicTraffic }

// visited is the route of a sandbox, whatever its state, or nil, for somebody who
// has shown nothing.
func (g *Gateway) visited(ctx context.Context, sandboxID string) *routing.Route {
	route, _, _, _ := g.lookup(ctx, proof{kind: proofVisitor}, sandboxID)
	return route
}

// isOpen reports a request to a port of a sandbox that runs and that is open to
// everybody: a preflight to it is the app's. Any other is answered here, in the
// same way whether there is such a sandbox or not.
func (g *Gateway) isOpen(r *http.Request, host routing.Host) bool {
	if !g.opt.Access.opensPorts() {
		return false
	}
	target, err := g.targetOf(r, host)
	if err != nil {
		return false
	}
	route := g.visited(r.Context(), target.SandboxID)
	return route != nil && route.State == routing.StateRunning && !route.Private
}

// examineVisitor is examine for a port that is open to holders of a token: the
// sandbox's traffic token or its access token.
func (a *Access) examineVisitor(r *http.Request, target routing.Target) (proof, cause.Failure, error) {
	token, err := auth.Sole(r.Header, auth.HeaderTrafficToken)
	lacking := trafficTokenMissing
	switch {
	case err == nil:
		shown, f, wrong := a.examineTrafficToken(token, target.SandboxID)
		if f.Cause == cause.OK {
			return shown, f, nil
		}
		lacking, err = f, wrong
	case !errors.Is(err, auth.ErrNotSent):
		return proof{}, trafficTokenTwice, err
	}
	token, unsent := auth.Sole(r.Header, auth.HeaderAccessToken)
	switch {
	case unsent == nil:
		shown, f, wrong := a.examineToken(r.Context(), token, target.SandboxID)
		if f == tokenWrong && lacking != trafficTokenMissing {
			break // that is the one that was meant
		}
		return shown, f, wrong
	case !errors.Is(unsent, auth.ErrNotSent):
		return proof{}, tokenTwice, unsent
	}
	return proof{}, lacking, err
}

func (a *Access) examineTrafficToken(token, sandboxID string) (proof, cause.Failure, error) {
	if a.Tokens == nil {
		return proof{}, trafficTokenWrong, errTrafficTokenWrong // none was ever made
	}
	claim, ok := a.Tokens.Check(auth.TrafficToken, token, sandboxID)
	if !ok {
		return proof{}, trafficTokenWrong, a.whyWrong(auth.TrafficToken, token, errTrafficTokenWrong)
	}
	return proof{kind: proofToken, claim: claim}, cause.Failure{}, nil
}
