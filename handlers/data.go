package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/handlers/websocket"
	"github.com/caddy-e2b/gateway/routing"
)

// dataCall is one data-plane request on its way, and all that lives as long as it:
// one piece of memory, which nobody uses again. Whoever sends the request may hold on
// to a part of it for longer.
type dataCall struct {
	g       *Gateway
	w       http.ResponseWriter // the watchdog
	r       *http.Request
	control http.ResponseController
	target  routing.Target
	route   *routing.Route
	cluster *routing.Cluster
	body    *streamedBody // nil when the body was read first
	dog     watchdog
	line    *lifeline // of the request that was sent on, nil before
	// learned is when it became known that the sandbox does not run any more, since the
	// line began; 0 before.
	learned time.Duration
	listed  *running // where the call is registered, nil while it is not
	proto   protocol.Protocol
	// waited: the client took its time for a small body.
	waited bool
	// answered: the head of an answer was written.
	answered bool
	out      *Outcome

	silence silence

	// The memory of what nearly every call has.
	ownLine   lifeline
	ownListed running
	sent      *parts // nil once there is an answer
	heard     heardBody
}

// serveData carries a call to envd, to what speaks envd's protocol for it, or to
// an app on another port.
func (g *Gateway) serveData(w http.ResponseWriter, r *http.Request, host *routing.Host, out *Outcome) {
	if websocket.Extended(r) {
		r = websocket.AsUpgrade(r)
	}
	c, shown, f := g.newCall(r, host, out)
	if c == nil {
		*out = refuse(w, r, *out, f)
		return
	}
	c.guard(w)
	if c.cluster == nil {
		c.out.Err = errUnknownCluster
		c.fail(cause.Failure{Cause: cause.Internal})
		return
	}
	done, refusal := c.withinLimits(shown)
	if refusal != nil {
		c.fail(*refusal)
		return
	}
	defer done()
	c.serve()
}

// newCall finds out whom a request is for and whether it may be made. The call is
// nil when it may not, and the failure says why. What is found out is noted in out.
//
// It is no part of serveData because what it needs of the stack would stay there
// for as long as a stream lives.
func (g *Gateway) newCall(r *http.Request, host *routing.Host, out *Outcome) (*dataCall, proof, cause.Failure) {
	target, err := g.targetOf(r, *host)
	if err != nil {
		out.Err = err
		return nil, proof{}, refusalOfTarget(r, out.Operation, err)
	}
	out.SandboxID, out.Port = target.SandboxID, target.Port
	shown, f, err := g.examine(r, out.Operation, target)
	if f.Cause != cause.OK {
		out.Err = err
		return nil, proof{}, f
	}
	begun := out.Trail.now()
	route, source, f, err := g.lookup(r.Context(), shown, target.SandboxID)
	out.Trail.lookedUp(begun)
	out.Lookup = source
	if f.Cause != cause.OK && !g.waits(out.Operation, f.Cause) {
		out.Err = behind(f.Cause, route, err)
		return nil, proof{}, f
	}
	out.Cluster = route.Cluster
	if g.opt.Drains.closes(route) {
		return nil, proof{}, sandboxDrained(target.SandboxID)
	}
	out.Subject = g.opt.Access.nameOf(r.Context(), shown, route)
	c := newDataCall(relayedAs(r, out.Operation))
	c.g, c.r, c.target, c.route, c.cluster = g, r, target, route, g.clusters[route.Cluster]
	c.out = out
	return c, shown, cause.Failure{}
}

// newDataCall makes the memory of a call. What a stream was asked for with is not held for as long as it lives, and takes no more
// room than it needs, which stays as gaps. With other calls it is not worth an allocation of its own.
func newDataCall(p protocol.Protocol) *dataCall {
	if p.Framed() {
		return &dataCall{proto: p, sent: new(parts)}
	}
	both := new(struct {
		dataCall
		sent parts
		body [smallBody]byte
	})
	both.dataCall.proto, both.dataCall.sent, both.sent.small = p, &both.sent, both.body[:]
	return &both.dataCall
}

// last is told of a call that takes longer than most.
func (c *dataCall) last() {
	c.ownLine.last()
	c.dog.last()
	c.silence.ofReader(c.r)
}

// guard puts a watchdog between the call and its client.
func (c *dataCall) guard(w http.ResponseWriter) {
	c.silence.allow = c.g.opt.Silence
	c.dog.ResponseWriter = w
	c.dog.control = *http.NewResponseController(w)
	c.dog.idle = max(c.g.opt.UpstreamIdle, 0)
	c.dog.stall = c.g.opt.ClientStall
	if c.proto.Framed() {
		c.dog.idle, c.dog.alive = idleLimits(c.g.opt.UpstreamIdle, keepaliveInterval(c.r.Header))
	}
	c.w = &c.dog
	c.control = *http.NewResponseController(c.w)
}

var errUnknownCluster = errors.New("the route names a cluster that is not configured")

// causeOfLookup tells the registry's three answers apart, and a usable route
// from one that is not. It is cause.OK for a running sandbox.
func causeOfLookup(ctx context.Context, route *routing.Route, err error) cause.Cause {
	switch {
	case errors.Is(err, routing.ErrGone):
		return cause.SandboxGone
	case errors.Is(err, routing.ErrMalformed):
		return cause.RouteUnusable
	case err != nil && ctx.Err() != nil:
		return cause.ClientGone
	case err != nil:
		return cause.RegistryUnavailable
	}
	switch route.State {
	case routing.StateRunning:
		return cause.OK
	case routing.StatePaused:
		return cause.SandboxPaused
	case routing.StateStopped:
		return cause.SandboxStopped
	case routing.StateExpired:
		return cause.SandboxExpired
	case routing.StateStarting:
		return cause.SandboxStarting
	case routing.StateFailed:
		return cause.SandboxFailed
	case routing.StateDeleted:
		return cause.SandboxGone
	default:
		return cause.RouteUnusable
	}
}

// behind is the error behind what a lookup has found, for logs: the lookup's own, or
// what the route says of a start that failed or of an end that nobody can explain.
func behind(why cause.Cause, route *routing.Route, err error) error {
	if err == nil && (why == cause.SandboxFailed || why == cause.SandboxStopped) && route.Problem != "" {
		return errors.New(route.Problem)
	}
	return err
}

func (c *dataCall) serve() {
	if f := c.learnPorts(); f != nil {
		c.fail(*f)
		return
	}
	defer c.done()
	if c.route.State == routing.StateStarting {
		c.silence.ofBoth(c.r)
		begun := c.out.Trail.now()
		f := c.awaitReady()
		c.out.Trail.waited(begun)
		if f != nil {
			c.fail(*f)
			return
		}
	}
	hops, f := c.hops()
	if f != nil {
		c.fail(*f)
		return
	}
	req, err := c.request()
	if err != nil {
		c.fail(*c.bodyFailed(err))
		return
	}
	if c.waited {
		if f = c.admitAgain(); f == nil {
			c.registerAgain()
			hops, f = c.hops()
		}
		if f != nil {
			c.fail(*f)
			return
		}
	}
	resp, err := c.send(req, hops)
	if err != nil && c.toApp() {
		resp, err = c.sendWhenOpen(req, hops, err)
	}
	if err != nil {
		c.failedToSend(err)
		return
	}
	defer resp.Body.Close()
	c.out.Status = uint16(resp.StatusCode)
	if websocket.Requested(c.r) && websocket.Switched(resp) && websocket.Accepted(c.r, resp) {
		c.silence.ofBoth(c.r)
		c.tunnel(resp)
		return
	}
	if websocket.Stream(c.r) != nil && resp.StatusCode < 300 {
		// It would tell the client that its WebSocket is open.
		c.fail(cause.Failure{Cause: cause.UpstreamInvalid})
		return
	}
	// What was sent is not held for as long as the answer lasts.
	resp.Request, c.sent = nil, nil
	c.dog.watch()
	c.heard = c.dog.listen(resp.Body)
	resp.Body = &c.heard
	if resp.ContentLength != 0 && !(isThere(resp) && resp.ContentLength <= isShort) {
		c.silence.ofBoth(c.r)
	}
	c.answer(resp)
}

// isShort is how long an answer may be, in bytes, that net/http holds until the handler
// has returned: nobody waits for a client to take it.
const isShort = 2 << 10

// nextHop is whom the call is sent on to.
func (c *dataCall) nextHop() auth.Hop {
	if c.toApp() {
		return auth.App
	}
	return auth.Envd
}

// request makes the request that is sent on. done must be called when the
// answer has been relayed, also when there is none.
func (c *dataCall) request() (*http.Request, error) {
	c.line = &c.ownLine
	c.line.begin(c.r.Context())
	c.line.trail = c.out.Trail
	req := c.sent.outbound(c.line, c.r, c.nextHop(), c.out.Trail)
	if c.toApp() {
		takesTrailers(req, c.r)
	} else {
		// Set, not copied: Connection could have named it, and a preview host
		// needs neither.
		c.sent.sandboxID[0] = c.target.SandboxID
		req.Header[routing.HeaderSandboxID] = c.sent.sandboxID[:]
		req.Header[routing.HeaderSandboxPort] = envdPort
		if c.proto == protocol.GRPC {
			takesTrailers(req, c.r)
		}
	}
	c.withhold(req)
	if websocket.Requested(c.r) {
		websocket.Mark(req.Header)
	}
	if c.throughProxy() && c.out.Operation.Name != filesCall {
		// Nobody but a web server in between would compress an RPC, and ROCK's
		// answers must be read.
		delete(req.Header, "Accept-Encoding")
	}
	c.bound()

	switch n := c.r.ContentLength; {
	case n == 0:
		req.Body = http.NoBody
	case n > 0 && n <= c.g.opt.BufferBody:
		// Reading a small body first sends it in one packet, and keeps
		// net/http from cutting a streaming answer that starts while the
		// server still holds the body (golang/go#40747).
		b := c.sent.room(n)
		if err := c.readBody(b); err != nil {
			return nil, err
		}
		c.silence.ofNoReader()
		c.waited = time.Since(c.line.begun) > shortWait
		c.sent.bufferedBody(req, b)
	default:
		// The answer may begin while the body is still coming; over HTTP/1.1
		// net/http must be told so, or it eats the body.
		c.silence.ofBoth(c.r)
		_ = c.control.EnableFullDuplex()
		c.body = &streamedBody{body: c.r.Body, left: n, dog: &c.dog}
		if c.speaksH2C() {
			c.body.interrupt = func() { _ = c.control.SetReadDeadline(time.Unix(1, 0)) }
		}
		c.dog.body = c.body
		req.Body = c.body
		req.ContentLength = n
		req.Close = c.mayConverse()
	}
	if c.dog.idle > 0 {
		c.dog.watch() // the wait for the answer, too
	}
	return req, nil
}

// bound lets the gateway give up the call: at the client's deadline, when the
// sandbox of a stream is ended, and when the gateway goes away.
func (c *dataCall) bound() {
	c.dog.call = c.line
	c.register(c.proto.Framed())
	if d, ok := clientDeadline(c.r.Header); ok && !c.toApp() {
		c.line.within(ofClient, d+deadlineGrace, cause.Deadline)
	}
}

// done ends what request and bound have begun.
func (c *dataCall) done() {
	if c.body != nil && c.answered {
		_ = c.control.Flush() // it need not wait for the client's body
	}
	c.dog.stop()
	c.unregister()
	c.ownLine.end()
	if c.body != nil {
		c.body.finish(&c.control)
	}
	c.silence.end()
}

// register notes that the call runs. A stream is ended with its sandbox, and told so.
func (c *dataCall) register(stream bool) {
	c.unregister()
	if c.listed = &c.ownListed; c.ownListed.cancel != nil {
		c.listed = new(running) // somebody may be looking at the first one
	}
	c.listed.route, c.listed.cancel, c.listed.lasts, c.listed.stream = c.route, c.line, c, stream
	if c.out.Operation.Name != healthCall { // to ask is not to use
		c.listed.dog = &c.dog
	}
	c.g.calls.add(c.listed)
	if stream {
		c.g.countsOf(c.listed.route.Cluster).streams.Add(1)
		c.out.Stream = true
		c.listed.seen = &sight{operation: c.out.Operation.Name, subject: c.out.Subject, client: c.r.RemoteAddr, port: c.target.Port, begun: c.line.begun}
		c.g.streams.add(c.listed)
		if c.g.opt.Drains.closes(c.route) {
			c.line.cancel(ended{cause.Drain}) // since it was let in
		}
	}
}

func (c *dataCall) unregister() {
	if c.listed == nil {
		return
	}
	lasted := c.g.calls.remove(c.listed)
	if c.listed.stream {
		c.g.countsOf(c.listed.route.Cluster).streams.Add(-1)
		c.g.streams.remove(c.listed)
	} else if lasted {
		c.g.opt.History.lasted(c.out, c.line.begun)
	}
	c.listed = nil
}

// registerAgain notes another route of a call that is a stream.
func (c *dataCall) registerAgain() {
	if c.proto.Framed() {
		c.register(true)
	}
}
