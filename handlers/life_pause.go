package handlers

import (
	"errors"
	"net/http"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
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
		c.g.opt.Deaths.tell(id, cause.SandboxPaused)
		return lifeAnswer{status: http.StatusNoContent}
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
