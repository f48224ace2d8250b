package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// connect hands the caller a sandbox to work with, like a create, and starts it again
// if it is paused. E2B's older resume is the same call.
func (c *lifeCall) connect() (lifeAnswer, bool) {
	seconds, refused := c.seconds("timeout")
	if refused != nil {
		return *refused, true
	}
	answer := c.connectOnce(seconds)
	if !errors.Is(answer.err, errContradicted) || c.acted {
		return answer, true
	}
	// Its time may have run out between two questions, or it is starting: a registry
	// without a Redis calls that running.
	ctx, cancel := c.g.lifeContext(c.ctx)
	err := awaitLife(ctx, c.g.adminOf(c.cluster), c.op.SandboxID)
	cancel()
	if err != nil {
		return c.notRestarted(err), true
	}
	answer = c.connectOnce(seconds)
	if errors.Is(answer.err, errContradicted) {
		answer.failed = cause.Failure{Cause: cause.RouteUnusable, SandboxID: c.op.SandboxID}
	}
	return answer, true
}

func (c *lifeCall) connectOnce(seconds int64) lifeAnswer {
	status := http.StatusOK
	at, leave := c.g.opt.Deaths.ends.enter(c.op.SandboxID)
	defer leave()
	why, err := c.locate()
	if why == cause.SandboxPaused || c.g.opt.Deaths.restarts.pending(c.op.SandboxID) && (why == cause.OK || why == cause.SandboxStarting) {
		status = http.StatusCreated
		if refused := c.resume(seconds); refused != nil {
			return *refused
		}
		why, err = c.locate()
	}
	if why == cause.SandboxStarting {
		var f cause.Failure
		if c.route, f, err = c.g.awaitReady(c.ctx, c.route); f.Cause != cause.OK {
			return c.standing(f.Cause, err)
		}
		why, err = c.locate() // it took its time, and the id may be another's
	}
	if why != cause.OK {
		return c.standing(why, err)
	}
	found, refused := c.describe()
	if refused == nil && !c.acted {
		refused = c.prolong(at, found, seconds)
	}
	if refused != nil {
		return *refused
	}
	if c.op.Name == resumeCall {
		status = http.StatusCreated // its only one
	}
	return c.hand(found, status)
}

// refresh gives a running sandbox more time, as E2B's keep-alive does.
func (c *lifeCall) refresh() (lifeAnswer, bool) {
	seconds, refused := c.seconds("duration")
	if refused != nil {
		return *refused, true
	}
	at, leave := c.g.opt.Deaths.ends.enter(c.op.SandboxID)
	defer leave()
	if why, err := c.locate(); why != cause.OK {
		return c.standing(why, err), true
	}
	found, refused := c.describe()
	if refused == nil {
		refused = c.prolong(at, found, seconds)
	}
	if refused != nil {
		return *refused, true
	}
	return lifeAnswer{status: http.StatusNoContent}, true
}

// resume starts the paused sandbox again, with so many seconds to live, and waits until
// it runs. It returns what the client is told if that fails.
func (c *lifeCall) resume(seconds int64) *lifeAnswer {
	id := c.op.SandboxID
	if !c.cluster.Restarts {
		a := failed(cause.Failure{Cause: cause.NotOffered, SandboxID: id,
			Message: "The sandbox is paused, and resuming is not offered by this deployment; create another one"}, nil)
		return &a
	}
	if l := c.g.opt.Limits; l != nil && !c.g.opt.Deaths.restarts.pending(id) {
		if r := l.Create(c.who.limits()); r != nil {
			a := failed(*c.g.limited(routing.ControlPlane, c.cluster.Name, r), nil)
			return &a
		}
	}
	restart := *c // it may go on without the call
	var refused *lifeAnswer
	begun, err := c.g.opt.Deaths.restarts.join(c.ctx, &c.g.tasks, id, func() error {
		if err := c.g.restart(restart.cluster, id); err != nil {
			return err
		}
		refused = restart.beginLife(seconds)
		return nil
	})
	c.g.invalidate(id)
	if err != nil {
		a := c.notRestarted(err)
		return &a
	}
	if c.acted = begun; begun {
		return refused
	}
	return nil
}

// beginLife gives a sandbox that was restarted the time that was asked for, which may be
// less than it has. Nobody who waits for the restart has asked for more before that.
func (c *lifeCall) beginLife(seconds int64) *lifeAnswer {
	ctx, cancel := context.WithTimeout(c.g.ctx, c.g.opt.ControlTimeout)
	defer cancel()
	c.ctx = ctx
	at, leave := c.g.opt.Deaths.ends.enter(c.op.SandboxID)
	defer leave()
	return c.setEnd(at, seconds)
}

// restart has ROCK start a sandbox again and waits until it runs. It is for all who
// wait for it, and so outlives each of them.
func (g *Gateway) restart(cluster *routing.Cluster, id string) error {
	ctx, cancel := context.WithTimeout(g.ctx, g.opt.ControlTimeout)
	defer cancel()
	rock := g.adminOf(cluster)
	err := rock.call(ctx, http.MethodPost, "/sandboxes/"+id+"/restart", nil, nil)
	if state := restartedAs(err); err != nil && state != "running" && state != "pending" { // else somebody was faster
		return err
	}
	ctx, cancel = g.lifeContext(ctx)
	defer cancel()
	return awaitLife(ctx, rock, id)
}

// lifeContext bounds the wait for a sandbox that was started again as that of the
// data plane is, where that has a bound.
func (g *Gateway) lifeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.opt.ReadyTimeout > 0 {
		return context.WithTimeout(ctx, g.opt.ReadyTimeout)
	}
	return context.WithCancel(ctx)
}

var (
	errNotYet     = errors.New("the restarted sandbox does not run yet")
	errFailedLife = errors.New("the restarted sandbox has failed to start")
)

// alivePause is the time between two questions whether a restarted sandbox runs.
const alivePause = 500 * time.Millisecond

// awaitLife asks ROCK until a sandbox that was started again runs, or does not start
// any more. ROCK sees that it runs when it is asked. The registry does not do: one
// without a Redis calls a starting sandbox running.
func awaitLife(ctx context.Context, rock RoleClient, id string) error {
	pause := time.NewTicker(alivePause)
	defer pause.Stop()
	for {
		switch s, err := rock.statusOf(ctx, id); {
		case s.failed:
			return fmt.Errorf("%w: %s", errFailedLife, s.problem)
		case err == nil && !s.pending:
			return nil // or somebody has ended it since, which the registry tells
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errNotYet
		}
	}
}

// inState finds the state in ROCK's refusal of a restart: "Sandbox … cannot be
// restarted: current state is 'running'".
var inState = regexp.MustCompile(`cannot be restarted: current state is '([a-z]+)'`)

// restartedAs is the state in which ROCK does not restart a sandbox, "" for any other
// error.
func restartedAs(err error) string {
	var refused *rockError
	if !errors.As(err, &refused) {
		return ""
	}
	if m := inState.FindStringSubmatch(refused.Text); m != nil {
		return m[1]
	}
	return ""
}

// notRestarted is what the client is told when ROCK has not restarted the sandbox, or
// nobody knows.
func (c *lifeCall) notRestarted(err error) lifeAnswer {
	var refused *rockError
	var dial *upstream.DialError
	switch {
	case errors.As(err, &dial):
		return failed(cause.Failure{Cause: cause.ClusterUnreachable}, err)
	case errors.Is(err, errNotYet):
		return failed(cause.Failure{Cause: cause.Deadline,
			Message: "The sandbox is being started again, but does not run yet; connect again in a moment"}, err)
	case errors.Is(err, errFailedLife):
		return failed(cause.Failure{Cause: cause.UpstreamInvalid, Message: "The sandbox has failed to start again"}, err)
	case !errors.As(err, &refused):
		return failed(controlFailure(c.r.Context(), c.ctx, err), err)
	case refused.unserved():
		return failed(notOffered(c.op), err) // a ROCK without the call
	case restartedAs(err) == "deleted":
		return failed(noSuch(c.who, c.op.SandboxID), err)
	case refused.refused():
		return failed(cause.Failure{Cause: cause.BadRequest, Status: http.StatusConflict, SandboxID: c.op.SandboxID,
			Message: "The sandbox cannot be resumed in the state that it is in; nothing was done"}, err)
	default:
		return failed(unknownOutcome(cause.UpstreamInvalid), err)
	}
}
