package handlers

import (
	"errors"
	"net/http"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// pause stops the sandbox by ROCK's own stop, which keeps its files and ends its
// processes. In a cluster whose operator has not asked for that it is ROCK's to
// answer.
func (c *lifeCall) pause() (lifeAnswer, bool) {
	why, err := c.locate()
	if c.cluster != nil && !c.cluster.Stops {
		return lifeAnswer{}, false
	}
	switch why {
	case cause.OK, cause.SandboxStarting:
		return c.stop(), true
	case cause.SandboxPaused:
		return c.pausedAlready(), true
	default:
		return c.standing(why, err), true
	}
}

func (c *lifeCall) pausedAlready() lifeAnswer {
	return failed(cause.Failure{Cause: cause.SandboxPaused, Status: http.StatusConflict, SandboxID: c.op.SandboxID,
		Message: "The sandbox is paused already"}, nil)
}

// errStopDeletes is that a pause has cost a sandbox its life. The operator's "pause stop" is wrong then.
var errStopDeletes = errors.New("this ROCK deletes the sandboxes that it stops " +
	"(lifecycle.auto_transition.auto_delete_seconds is not set there): pause is refused from now on")

// stopped is the answer when ROCK has stopped the sandbox. Published ROCK runs its containers so that they are removed
// when they stop, and deletes the sandbox then, unless it is told otherwise. It cannot be asked for that before.
func (c *lifeCall) stopped() lifeAnswer {
	id := c.op.SandboxID
	if _, err := c.locate(); !errors.Is(err, routing.ErrGone) {
		c.g.opt.Deaths.tell(id, cause.SandboxPaused)
		return lifeAnswer{status: http.StatusNoContent}
	}
	c.g.opt.Deaths.tell(id, cause.SandboxGone)
	c.g.opt.Deaths.stopDeletes.Store(c.cluster.Name, true)
	return failed(noSuch(c.who, id), errStopDeletes)
}

func (c *lifeCall) stop() lifeAnswer {
	if _, deletes := c.g.opt.Deaths.stopDeletes.Load(c.cluster.Name); deletes {
		return failed(notOffered(c.op), errStopDeletes)
	}
	id := c.op.SandboxID
	err := c.g.adminOf(c.cluster).call(c.ctx, http.MethodPost, "/stop", map[string]string{"sandbox_id": id}, nil)
	var refused *rockError
	var dial *upstream.DialError
	switch {
	case errors.As(err, &dial):
		return failed(cause.Failure{Cause: cause.ClusterUnreachable}, err)
	case err == nil:
		c.g.invalidate(id)
		return c.stopped()
	}
	c.g.invalidate(id) // who knows
	switch {
	case !errors.As(err, &refused):
		return failed(controlFailure(c.r.Context(), c.ctx, err), err)
	case refused.unserved():
		return failed(notOffered(c.op), err) // a ROCK without the call
	case !refused.refused():
		return failed(unknownOutcome(cause.UpstreamInvalid), err)
	}
	// Somebody else was faster.
	switch why, again := c.locate(); why {
	case cause.SandboxPaused:
		return c.pausedAlready()
	case cause.OK, cause.SandboxStarting:
		return failed(unknownOutcome(cause.UpstreamInvalid), err)
	default:
		return c.standing(why, again)
	}
}
