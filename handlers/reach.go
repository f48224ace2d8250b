package handlers

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// reach is what a control-plane call can touch, and so who may make it.
type reach uint8

const (
	// reachAll: more than one owner's. ROCK does not tell owners apart, so the
	// call is for admins; to everybody else it is not offered.
	reachAll reach = iota
	// reachNew: a sandbox that will be the caller's.
	reachNew
	// reachOne: the sandbox in the path. For its owner.
	reachOne
	// reachMany: sandboxes, of which the answer shows the caller's.
	reachMany
)

// reaches is the reach of every call. A call that is not in here is for admins:
// whoever adds one to the classifier must decide.
var reaches = map[string]reach{
	createCall:                reachNew,
	listCall:                  reachMany,
	infoCall:                  reachOne,
	killCall:                  reachOne,
	"Sandbox.set_timeout":     reachOne,
	refreshCall:               reachOne,
	pauseCall:                 reachOne,
	resumeCall:                reachOne,
	connectCall:               reachOne,
	"Sandbox.create_snapshot": reachOne,
	"Sandbox.get_metrics":     reachOne,
	"Sandbox.update_network":  reachOne,
	"Sandbox.logs":            reachOne,
	// ROCK has none of these yet.
	"this sandbox call":      reachAll,
	"Sandbox.fork":           reachAll,
	"Sandbox.list_snapshots": reachAll,
	"Template":               reachAll,
	"Volume":                 reachAll,
	"Secret":                 reachAll,
	"teams":                  reachAll,
	"nodes":                  reachAll,
	"api-keys":               reachAll,
	"access-tokens":          reachAll,
}

func reachOf(op routing.Operation) reach {
	switch r := reaches[op.Name]; {
	case r == reachNew && !op.Create, // such as POST /v3/sandboxes
		r == reachOne && op.SandboxID == "": // such as GET /sandboxes/metrics
		return reachAll
	default:
		return r
	}
}

// noSuchSandbox is what a call is told about a sandbox that is not the caller's.
// It is the same to the byte whether there is one, and whoever's it is.
var noSuchSandbox = cause.Failure{
	Cause:   cause.SandboxGone,
	Status:  404,
	Message: "The sandbox was not found: it has ended, it never existed, or it does not belong to this API key",
}

// noSuch is what a call is told about a sandbox that there is none of for who.
func noSuch(who *caller, id string) cause.Failure {
	if who != nil {
		return noSuchSandbox
	}
	return cause.Failure{Cause: cause.SandboxGone, Status: 404, SandboxID: id}
}

// permit finds out whether the call is one for who. It is OK if so.
func (g *Gateway) permit(ctx context.Context, who *caller, op routing.Operation) (cause.Failure, error) {
	if who == nil {
		return cause.Failure{}, nil
	}
	switch reachOf(op) {
	case reachNew, reachMany:
		return cause.Failure{}, nil
	case reachOne:
		begun := time.Now()
		f, err := g.permitOne(ctx, who, op.SandboxID)
		if f == noSuchSandbox {
			g.level(ctx, begun)
		}
		return f, err
	default:
		if who.admin() {
			return cause.Failure{}, nil
		}
		return notOffered(op), nil
	}
}

// permitOne looks up whose a sandbox is, and notes it in who. What is not known
// to be the caller's is either known not to be, or a don't know; to admins it is
// neither, they get ROCK's own answer.
func (g *Gateway) permitOne(ctx context.Context, who *caller, id string) (cause.Failure, error) {
	admin := who.admin()
	route, source, err := g.opt.Routes.Lookup(ctx, id)
	switch {
	case err != nil && admin:
		who.subject = ""
		return cause.Failure{}, nil
	case err != nil:
		return notHere(ctx, id, err)
	}
	owner, err := who.access.subjectOf(ctx, route.Owner)
	if err == nil && !admin && source != routing.SourceRegistry && owner != who.key.Subject && !(owner == "" && who.access.AllowUnowned) {
		// What is remembered decides against nobody: the id may be another
		// sandbox's by now. It also keeps foreign and unknown alike while the
		// registry cannot be asked.
		if route, err = g.opt.Routes.Fresh(ctx, id); err != nil {
			return notHere(ctx, id, err)
		}
		owner, err = who.access.subjectOf(ctx, route.Owner)
	}
	who.cluster = route.Cluster
	switch {
	case admin:
		who.subject = owner
		return cause.Failure{}, nil
	case err != nil:
		return cause.Failure{Cause: cause.KeysUnavailable}, err
	case route.State == routing.StateDeleted:
		return noSuchSandbox, nil
	case owner == who.key.Subject:
		return cause.Failure{}, nil
	case owner == "" && route.State == routing.StateStopped:
		// The record that would say whose it is could not be read.
		return dontKnow(id), behind(cause.SandboxStopped, route, nil)
	case owner == "" && who.access.AllowUnowned:
		who.subject = "" // its tokens are nobody's
		return cause.Failure{}, nil
	default:
		return noSuchSandbox, nil
	}
}

// dontKnow is what a call is told about a sandbox that nobody can look up.
func dontKnow(id string) cause.Failure {
	return cause.Failure{Cause: cause.RegistryUnavailable, SandboxID: id}
}

// notHere is what a call is told when a lookup has found no record. One that
// cannot be read is a don't know as well: no more may be said to somebody whose
// sandbox it perhaps is not.
func notHere(ctx context.Context, id string, err error) (cause.Failure, error) {
	switch {
	case errors.Is(err, routing.ErrGone):
		return noSuchSandbox, nil
	case ctx.Err() != nil:
		return cause.Failure{Cause: cause.ClientGone}, err
	default:
		return dontKnow(id), err
	}
}

// permitID finds out whether who may make a sandbox with the id. It looks
// afresh: somebody else's sandbox must not be replaced. That the id is taken
// shows, as it must; by whom does not.
func (g *Gateway) permitID(ctx context.Context, who *caller, id string) (cause.Failure, error) {
	route, err := g.opt.Routes.Fresh(ctx, id)
	switch {
	case errors.Is(err, routing.ErrGone), err == nil && route.State == routing.StateDeleted:
		return cause.Failure{}, nil
	case err != nil:
		return notHere(ctx, id, err)
	case route.State == routing.StateStopped:
		return dontKnow(id), behind(cause.SandboxStopped, route, nil)
	}
	switch owner, err := who.access.subjectOf(ctx, route.Owner); {
	case err != nil:
		return cause.Failure{Cause: cause.KeysUnavailable}, err
	case owner == who.key.Subject:
		return cause.Failure{}, nil // ROCK says what there is to say
	default:
		return idTaken, nil
	}
}

// idTaken is what somebody is told who chooses an id that is somebody else's.
var idTaken = cause.Failure{Cause: cause.BadRequest, Message: "metadata: the id in " + chosenID + " cannot be used"}
