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

// admit finds out whether a call of the data plane may be made, and where its
// sandbox is. The failure's cause is cause.OK when it may, and there is a route to
// go by; err is for logs.
func (g *Gateway) admit(r *http.Request, op routing.Operation, target routing.Target) (proof, *routing.Route, routing.Source, cause.Failure, error) {
	if a := g.opt.Access; isApp(op) && a.opensPorts() {
		route, source, f, err := g.visit(r.Context(), target.SandboxID)
		switch {
		case route == nil || !route.Private:
			return proof{}, route, source, f, err
		case a == nil:
			return proof{}, nil, source, noTokens, errPrivate
		}
	}
	shown, f, err := g.opt.Access.examine(r, op, target)
	if f.Cause != cause.OK {
		return shown, nil, 0, f, err
	}
	route, source, f, err := g.lookup(r.Context(), shown, target.SandboxID)
	return shown, route, source, f, err
}

// opensPorts reports that visitors may use the ports of a sandbox that are not
// envd's, as far as the operator is concerned.
func (a *Access) opensPorts() bool { return a == nil || a.PublicTraffic }

// visit finds the route of a sandbox for somebody who has shown nothing, and
// perhaps need not. The failure's cause is cause.OK for a sandbox that runs.
func (g *Gateway) visit(ctx context.Context, sandboxID string) (*routing.Route, routing.Source, cause.Failure, error) {
	return g.lookup(ctx, proof{}, sandboxID)
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
	route, _, f, _ := g.visit(r.Context(), target.SandboxID)
	return f.Cause == cause.OK && !route.Private
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
		return proof{}, trafficTokenWrong, errTrafficTokenWrong
	}
	return proof{kind: proofToken, claim: claim}, cause.Failure{}, nil
}
