package handlers

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/handlers/websocket"
)

// kinds are the framings of the protocols that have one.
var kinds = map[protocol.Protocol]envelope.Kind{
	protocol.ConnectStream: envelope.Connect,
	protocol.GRPC:          envelope.GRPC,
	protocol.GRPCWeb:       envelope.GRPCWeb,
	protocol.GRPCWebText:   envelope.GRPCWebText,
}

// streamed reports an answer that is a stream, of the protocol that is returned:
// to a call of such a protocol, and with a body whose end tells how it went.
func (c *dataCall) streamed(resp *http.Response) (protocol.Protocol, bool) {
	p, framed := protocol.Framing(resp.Header.Get("Content-Type"))
	told := p != protocol.ConnectStream && hasGRPCStatus(resp.Header)
	return p, framed && c.proto.Framed() && !told && c.r.Method != http.MethodHead
}

// mayConverse reports a call whose client may wait for an answer before it sends on (full duplex), over HTTP/1.1.
// Go's server has no answer before the end of the request there, unless the connection is to be closed behind it or
// the handler has asked for full duplex: it reads what is left first (net/http, server.go, "Issue 15527"). Both sides
// would wait for ever.
func (c *dataCall) mayConverse() bool {
	_, framed := protocol.Framing(c.r.Header.Get("Content-Type"))
	return framed && c.r.ContentLength < 0 && !c.speaksH2C() && !websocket.Requested(c.r)
}

// answerStream relays a stream of protocol p and sees to it that it ends once,
// in the protocol, and with the true cause.
func (c *dataCall) answerStream(resp *http.Response, p protocol.Protocol) {
	// The end may have to be written here, so no length can be promised.
	delete(resp.Header, "Content-Length")
	delete(resp.Header, "Grpc-Status") // one that says nothing, see streamed
	resp.ContentLength = -1
	h := c.w.Header()
	unbuffered(h, resp)
	c.writeHead(resp)
	relay := envelope.Relay{
		Dst:        c.w,
		Flush:      c.control.Flush,
		Kind:       kinds[p],
		MaxHeld:    c.g.opt.MaxHeldEnvelope,
		Compressed: compresses(resp.Header, p),
		EndStream:  c.translateEndStream,
		OnFinal:    c.endSoon,
		Classify:   c.classifier(protocol.MediaType(h.Get("Content-Type"))),
	}
	if p != protocol.GRPC {
		resp.Header = nil // it has been passed on, and only trailers need it again
	}
	res := relay.Copy(resp.Body)
	switch {
	case res.WriteErr != nil, c.r.Context().Err() != nil && !res.Ended:
		c.clientGone(errors.Join(res.WriteErr, c.r.Context().Err()))
	case res.Ended:
	case p == protocol.GRPC && res.ReadErr == io.EOF && hasGRPCStatus(resp.Trailer):
		copyTrailers(h, trailersOf(resp))
	case res.Torn:
		c.cut(res.ReadErr)
	case res.Final:
		// The command is over and its result was delivered; only the end of
		// the stream is missing. An error here would lose the result.
		c.endStream(p, cause.Failure{})
	default:
		c.out.Err = res.ReadErr
		c.out.End = c.causeOfEnd(res.ReadErr)
		c.endStream(p, cause.Failure{Cause: c.out.End, SandboxID: c.target.SandboxID})
	}
	c.toldOfEnd()
}

// classifier is [classifier] for this call. The watchdog hears of each keepalive
// message.
func (c *dataCall) classifier(contentType string) func([]byte) envelope.Class {
	classify := classifier(c.out.Operation.Name, contentType)
	if classify == nil {
		return nil
	}
	return func(message []byte) envelope.Class {
		class := classify(message)
		if class == envelope.Keepalive {
			c.dog.keepalive()
		}
		return class
	}
}

// compresses reports an answer whose messages may be compressed.
func compresses(h http.Header, p protocol.Protocol) bool {
	name := "Grpc-Encoding"
	if p == protocol.ConnectStream {
		name = "Connect-Content-Encoding"
	}
	encoding := h.Get(name)
	return encoding != "" && encoding != "identity"
}

// hasGRPCStatus reports headers or trailers that say how a gRPC call has ended.
// An answer that has nothing but the end has it in its headers (gRPC over
// HTTP/2, "Trailers-Only").
func hasGRPCStatus(h http.Header) bool {
	values := h["Grpc-Status"]
	if len(values) != 1 {
		return false
	}
	_, err := strconv.ParseUint(values[0], 10, 32)
	return err == nil
}

// causeOfEnd is why a stream ended before it was over.
func (c *dataCall) causeOfEnd(err error) cause.Cause {
	f := cause.Failure{Cause: cause.UpstreamReset}
	switch {
	case errors.Is(err, envelope.ErrInvalidFrame):
		f.Cause = cause.UpstreamInvalid
	case errors.Is(err, envelope.ErrNoEndStream), errors.Is(err, io.EOF):
		f.Cause = cause.UpstreamEOF
	}
	return c.explain(f).Cause
}

// resultGrace is how long the end of a stream may come after the end of its
// process. envd sends both together.
const resultGrace = 250 * time.Millisecond

// endSoon lets the sandbox say no more: it has said how its process ended. The
// client has the result then, but will not hand it out before the end of
// the stream: newer SDKs run into their own deadline first, and lose it; with no
// deadline all of them wait for ever.
func (c *dataCall) endSoon() { time.AfterFunc(resultGrace, func() { c.line.cancel(nil) }) }

// endStream ends a stream of which whole frames were sent.
func (c *dataCall) endStream(p protocol.Protocol, f cause.Failure) {
	body, trailer := f.End(p)
	copyTrailers(c.w.Header(), trailer)
	if _, err := c.w.Write(body); err != nil {
		c.clientGone(err)
	}
}
