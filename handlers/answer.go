package handlers

import (
	"net"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/routing"
)

// answer brings a response back to the client.
func (c *dataCall) answer(resp *http.Response) {
	if c.toApp() {
		if resp.StatusCode < http.StatusOK {
			c.fail(cause.Failure{Cause: cause.UpstreamInvalid}) // no answer to what was asked
			return
		}
		if _, framed := protocol.Framing(resp.Header.Get("Content-Type")); framed {
			unbuffered(c.w.Header(), resp)
		}
		if c.endsInTrailers(resp) {
			c.answerGRPC(resp)
			return
		}
	} else {
		if f, ok := c.translate(resp); ok {
			c.fail(f)
			return
		}
		if p, ok := c.streamed(resp); ok {
			c.answerStream(resp, p)
			return
		}
	}
	if protocol.MediaType(resp.Header.Get("Content-Type")) == protocol.EventStream {
		// It may be silent for as long as its sandbox lives.
		c.register(true)
		unbuffered(c.w.Header(), resp)
	} else if !c.toApp() && !c.arriveWhole(resp) {
		return
	}
	c.writeHead(resp)
	c.copyBody(resp)
}

// unbuffered asks who stands in front of us to pass on each piece of an answer as it
// comes: nginx, and whoever would compress it, a site's own "encode" too (RFC 9111
// section 5.2.2.6). What the sandbox has said of caches stands beside it.
func unbuffered(h http.Header, resp *http.Response) {
	h.Set("X-Accel-Buffering", "no")
	resp.Header["Cache-Control"] = append(slices.Clip(resp.Header["Cache-Control"]), "no-transform")
}

// writeHead sends the status and the headers, at once where there is something to
// wait for behind them: the client may be waiting to know that its command has started.
func (c *dataCall) writeHead(resp *http.Response) {
	h := c.w.Header()
	c.answerHeaders(h, resp)
	c.closeIfUnread()
	if c.proto == protocol.ConnectStream {
		// Newer SDKs compare the whole value.
		h.Set("Content-Type", protocol.MediaType(c.r.Header.Get("Content-Type")))
	}
	c.answered = true
	for name := range trailersOf(resp) {
		h.Add("Trailer", name) // RFC 9110 section 6.6.2, as far as the upstream has said
	}
	c.w.WriteHeader(resp.StatusCode)
	if resp.ContentLength != 0 && !isThere(resp) {
		_ = c.control.Flush()
	}
}

// isThere reports an answer whose body can be read without waiting, so that its head
// need not be sent before.
func isThere(resp *http.Response) bool {
	ahead, ok := resp.Body.(interface{ Buffered() int })
	return ok && resp.ContentLength > 0 && int64(ahead.Buffered()) >= resp.ContentLength
}

// answerHeaders copies the headers of the sandbox's answer to the client.
func (c *dataCall) answerHeaders(h http.Header, resp *http.Response) {
	if c.toApp() {
		c.appHeaders(h, resp)
		return
	}
	answerHeaders(h, resp)
	if c.g.opt.Access != nil {
		if others := h["Vary"]; len(others) > 0 {
			h["Vary"] = append(slices.Clip(others), varies)
		} else {
			h["Vary"] = onlyVaries
		}
	}
}

// varies are the request headers that an answer of the data plane depends on. On
// a host that all sandboxes share, the URL of a file is the same for each: a cache
// would give what one client got to another (RFC 9111 section 4.1).
const varies = routing.HeaderSandboxID + ", " + routing.HeaderSandboxPort + ", " + auth.HeaderAccessToken

var onlyVaries = []string{varies}

// copyBody relays a body that has no room for a failure: if it is cut here, it
// must look cut there. An answer that ended early is never ended cleanly.
func (c *dataCall) copyBody(resp *http.Response) {
	var flush func() error
	if resp.ContentLength < 0 {
		// A body of known length fills the client's buffers by itself; of any
		// other, each piece may be what somebody waits for.
		flush = c.control.Flush
	}
	switch readErr, writeErr := envelope.CopyPlain(c.w, flush, resp.Body); {
	case writeErr != nil:
		c.clientGone(writeErr)
	case readErr != nil:
		c.cut(readErr)
	default:
		copyTrailers(c.w.Header(), trailersOf(resp))
	}
}

// cut ends an answer of which a part was sent.
func (c *dataCall) cut(err error) {
	_ = c.control.Flush() // what did arrive is the client's
	c.out.Abort = true
	c.out.Err = err
	c.out.End = cause.Truncated
	if by := endedBy(c.line); by != cause.OK {
		c.out.End = by
	}
	if c.r.Context().Err() != nil {
		c.out.End = cause.ClientGone
	}
	if !c.r.ProtoAtLeast(1, 1) {
		c.resetConnection()
	}
}

// resetConnection breaks the connection of an HTTP/1.0 client, which knows no
// other mark of an answer's end: net/http would end the connection politely. A
// panic with http.ErrAbortHandler does nothing to it any more.
func (c *dataCall) resetConnection() {
	conn, _, err := c.control.Hijack()
	if err != nil {
		return
	}
	c.answered = false // net/http panics when what was hijacked is flushed
	// Over TLS the connection underneath is closed, so that there is no
	// close_notify.
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

func (c *dataCall) clientGone(err error) {
	c.out.End = cause.ClientGone
	if c.dog.stalled.Load() {
		c.out.End = cause.ClientStalled
	}
	c.out.Err = err
	c.out.Abort = true
}

// trailersOf are the trailers that go on to the client, as far as they are
// known: none that may not be a header of the answer either, and none of which
// only a header is to be believed (RFC 9110 section 6.5.1).
func trailersOf(resp *http.Response) http.Header {
	if len(resp.Trailer) == 0 {
		return nil
	}
	passed := make(http.Header, len(resp.Trailer))
	endToEnd(passed, resp.Trailer)
	for name := range connectionNames(resp.Header) {
		delete(passed, name)
	}
	for name := range passed {
		switch {
		case !httpguts.ValidTrailerHeader(name), name == "Location", name == "Set-Cookie", name == "Retry-After":
			delete(passed, name)
		}
	}
	return passed
}

// copyTrailers sends the trailers, announced or not.
func copyTrailers(h, trailer http.Header) {
	for name, values := range trailer {
		h[http.TrailerPrefix+name] = values
	}
}
