package handlers

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// A call that meets a sandbox which is starting waits for it. It was let in already,
// and is let in again when the sandbox runs; nothing was sent meanwhile.

// waits reports a lookup's answer that is waited for, and not told. /health asks just
// that: whether the sandbox runs.
func (g *Gateway) waits(op routing.Operation, found cause.Cause) bool {
	return found == cause.SandboxStarting && op.Name != healthCall && g.opt.ReadyTimeout > 0
}

// awaitReady holds the call until its sandbox runs. The client's deadline counts from
// the beginning of the call, so what is left of it is sent on.
func (c *dataCall) awaitReady() *cause.Failure {
	c.line = new(lifeline)
	c.line.begin(c.r.Context())
	defer c.line.end()
	deadline, timed := clientDeadline(c.r.Header)
	timed = timed && !c.toApp() // what that means is the app's business
	if timed {
		c.line.within(ofClient, deadline+deadlineGrace, cause.Deadline)
	}
	call := &running{route: c.route, cancel: c.line, dog: &c.dog, lasts: c.line}
	c.g.calls.add(call)
	defer c.g.calls.remove(call)
	if err := c.readAhead(); err != nil {
		return c.bodyFailed(err)
	}
	_, f, err := c.g.awaitReady(c.line, c.route)
	if f.Cause != cause.OK {
		c.out.Err = err
		return &f
	}
	if timed {
		left := max(deadline-time.Since(c.line.begun), time.Millisecond)
		c.r.Header["Connect-Timeout-Ms"] = []string{strconv.FormatInt(left.Milliseconds(), 10)}
	}
	return c.admitAgain()
}

// maxReadAhead is the longest request body that is read before the wait, in bytes: a
// command with its environment.
const maxReadAhead = 4 << 10

// readAhead reads a short body, because net/http notices that a client of HTTP/1.1 has
// left only when all of its request was read. The longer ones stay where they are. The
// call gets a request of its own, which may be changed.
func (c *dataCall) readAhead() error {
	c.r = c.r.WithContext(c.r.Context())
	c.r.Header = c.r.Header.Clone()
	n := c.r.ContentLength
	if n <= 0 || n > min(maxReadAhead, c.g.opt.BufferBody) || c.r.ProtoMajor != 1 || c.r.Header.Get("Expect") != "" {
		return nil
	}
	b := make([]byte, n)
	if err := c.readBody(b); err != nil {
		return err
	}
	c.r.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}

// bodyFailed is what it means that a body could not be read before the request was
// sent on.
func (c *dataCall) bodyFailed(err error) *cause.Failure {
	c.out.Err = err
	f := causeOfBody(c.r, err)
	switch by := endedBy(c.line); by {
	case cause.OK:
	case cause.BadRequest:
		f = bodyCut
	default:
		f = cause.Failure{Cause: by}
	}
	return &f
}
