package handlers

import (
	"errors"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
)

// failedToSend answers when there is no response at all.
func (c *dataCall) failedToSend(err error) {
	c.out.Err = err
	var dial *upstream.DialError
	switch {
	case c.r.Context().Err() != nil:
		c.fail(cause.Failure{Cause: cause.ClientGone})
	case endedBy(c.line) != cause.OK:
		c.fail(c.explain(cause.Failure{}))
	case c.body != nil && c.body.failed.Load() != nil:
		c.fail(causeOfBody(c.r, *c.body.failed.Load()))
	case errors.As(err, &dial):
		c.failedToDial(err)
	case errors.Is(err, upstream.ErrPortRefused):
		c.portClosed()
	default:
		c.fail(c.explain(cause.Failure{Cause: cause.UpstreamReset}))
	}
}

// failedToDial answers when nothing was sent.
func (c *dataCall) failedToDial(err error) {
	if c.throughProxy() || !upstream.NobodyThere(err) {
		c.fail(cause.Failure{Cause: cause.ClusterUnreachable})
		return
	}
	if !upstream.Refused(err) {
		// A machine that is not there at all may have given its address away;
		// a closed port says nothing about the sandbox.
		c.g.invalidate(c.target.SandboxID)
	}
	if upstream.Silent(err) {
		// Packets that are lost say nothing of the port, and 502 would call the
		// sandbox dead to older SDKs.
		c.notSent(cause.Failure{Cause: cause.SandboxUnreachable})
		return
	}
	c.portClosed()
}

// portClosed answers when nothing listens on the port.
func (c *dataCall) portClosed() {
	c.notSent(cause.Failure{Cause: cause.PortClosed, Port: c.target.Port})
}

// notSent answers with f, unless the sandbox could not be connected to because it
// does not run.
func (c *dataCall) notSent(f cause.Failure) {
	switch now := c.lookAgain(); now {
	case cause.SandboxGone, cause.SandboxExpired, cause.SandboxPaused, cause.SandboxStopped, cause.SandboxStarting, cause.SandboxFailed, cause.ClientGone:
		c.fail(cause.Failure{Cause: now})
	default:
		c.fail(f)
	}
}

// explain returns why a call that may have been carried out has failed, if that
// can be found out, and f otherwise. That the sandbox is starting is no
// explanation: it says that nothing was done. So does the status of a sandbox
// that is stopped; a stream shows none.
func (c *dataCall) explain(f cause.Failure) cause.Failure {
	switch by := endedBy(c.line); by {
	case cause.OK:
	case cause.UpstreamIdle:
		f = cause.Failure{Cause: by} // unless there is a reason for it
	default:
		c.learn(learnedAt(c.line))
		return cause.Failure{Cause: by}
	}
	why, at := c.g.looks.whyAndWhen(c.r.Context(), c.route)
	c.learn(at)
	if why == cause.OK || why == cause.SandboxStopped && !c.proto.Framed() {
		return f
	}
	return cause.Failure{Cause: why}
}

// learn notes when it became known what has become of the sandbox, if it did.
func (c *dataCall) learn(at time.Time) {
	if !at.IsZero() {
		c.learned = max(at.Sub(c.line.begun), 1)
	}
}

// lookAgain asks the registry afresh. Its bound is the cache's lookup timeout.
func (c *dataCall) lookAgain() cause.Cause {
	route, err := c.g.opt.Routes.Fresh(c.r.Context(), c.target.SandboxID)
	return causeOfLookup(c.r.Context(), route, err)
}

// fail answers with a failure. Nothing may have been written before.
func (c *dataCall) fail(f cause.Failure) {
	f.SandboxID = c.target.SandboxID
	c.closeIfUnread()
	c.answered = f.Cause != cause.ClientGone
	if c.body != nil {
		// It may be on its way to the sandbox still.
		*c.out = tell(c.w, c.r, *c.out, f)
	} else {
		*c.out = refuse(c.w, c.r, *c.out, f)
	}
	c.toldOfEnd()
}

// closeIfUnread ends an HTTP/1.1 connection after an answer that comes before
// the end of the request body: what is left of the body must not be read as the
// next request. net/http does so by itself, but not once EnableFullDuplex was
// called. HTTP/2 has no such header, and no such trouble.
func (c *dataCall) closeIfUnread() {
	if c.body != nil && !c.body.whole.Load() && c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}
