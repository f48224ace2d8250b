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

// errStopDeletes is what the log says of a pause after which there is no sandbox. Which of the two it was, nobody tells.
var errStopDeletes = errors.New("the sandbox is gone after its pause: unless it was killed meanwhile, ROCK deletes what it " +
	"stops, and lifecycle.auto_transition.auto_delete_seconds has to be set there, or pause off here")

// stopped is the answer when ROCK has stopped the sandbox. Published ROCK runs its containers so that they are removed
// when they stop, and deletes the sandbox then, unless it is told otherwise. It cannot be asked for that before, and what
// it does to one sandbox says nothing of the next: each is made with its own, and a kill beside the pause looks the same.
func (c *lifeCall) stopped() lifeAnswer {
	id := c.op.SandboxID
	switch why, err := c.locate(); {
	case why == cause.OK || why == cause.SandboxStarting || why == cause.SandboxPaused: // or somebody has resumed it since
		c.g.opt.Deaths.tell(id, cause.SandboxPaused)
		return lifeAnswer{status: http.StatusNoContent}
	case errors.Is(err, routing.ErrGone):
		c.g.opt.Deaths.tell(id, cause.SandboxGone)
		return failed(noSuch(c.who, id), errStopDeletes)
	case why == cause.SandboxGone || why == cause.SandboxExpired || why == cause.SandboxFailed:
		return c.standing(why, err)
	case why == cause.ClientGone:
		return failed(cause.Failure{Cause: why}, err)
	default: // it is stopped, and nobody can say whether it still is there
		return failed(unknownOutcome(cause.UpstreamInvalid), err)
	}
}

func (c *lifeCall) stop() lifeAnswer {
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
