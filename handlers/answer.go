package handlers

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// answer brings a response back to the client.
func (c *dataCall) answer(resp *http.Response) {
	if f, ok := c.translate(resp); ok {
		c.fail(f)
		return
	}
	if c.proto == protocol.ConnectStream {
		c.answerStream(resp)
		return
	}
	c.writeHead(resp)
	c.copyBody(resp)
}

// writeHead sends the status and the headers at once: the client may be
// waiting for them to know that its command has started.
func (c *dataCall) writeHead(resp *http.Response) {
	h := c.w.Header()
	answerHeaders(h, resp)
	c.closeIfUnread()
	if c.proto == protocol.ConnectStream {
		// Newer SDKs compare the whole value.
		h.Set("Content-Type", protocol.MediaType(c.r.Header.Get("Content-Type")))
	}
	c.answered = true
	announceTrailers(h, resp.Trailer)
	c.w.WriteHeader(resp.StatusCode)
	if resp.ContentLength != 0 {
		_ = c.control.Flush()
	}
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copyBody relays a body that has no room for a failure: if it is cut here, it
// must look cut there. An answer that ended early is never ended cleanly.
func (c *dataCall) copyBody(resp *http.Response) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := resp.Body.Read(*buf)
		if n > 0 {
			if _, werr := c.w.Write((*buf)[:n]); werr != nil {
				c.clientGone(werr)
				return
			}
			// A body of known length fills the client's buffers by itself;
			// of any other, each piece may be what somebody waits for.
			if resp.ContentLength < 0 {
				if werr := c.control.Flush(); werr != nil {
					c.clientGone(werr)
					return
				}
			}
		}
		if err == io.EOF {
			copyTrailers(c.w.Header(), resp.Trailer)
			return
		}
		if err != nil {
			c.cut(err)
			return
		}
	}
}

// cut ends an answer of which a part was sent.
func (c *dataCall) cut(err error) {
	_ = c.control.Flush() // what did arrive is the client's
	c.out.Abort = true
	c.out.Err = err
	c.out.End = cause.Truncated
	if by := endedBy(c.ctx); by != cause.OK {
		c.out.End = by
	}
	if c.r.Context().Err() != nil {
		c.out.End = cause.ClientGone
	}
}

func (c *dataCall) clientGone(err error) {
	c.out.End = cause.ClientGone
	c.out.Err = err
	c.out.Abort = true
}

// answerStream relays a Connect stream and sees to it that it ends once, in the
// protocol, and with the true cause.
func (c *dataCall) answerStream(resp *http.Response) {
	// The end may have to be written here, so no length can be promised.
	delete(resp.Header, "Content-Length")
	resp.ContentLength = -1
	// nginx, where it stands in front of us, buffers what does not say so.
	h := c.w.Header()
	h.Set("X-Accel-Buffering", "no")
	c.writeHead(resp)
	encoding := resp.Header.Get("Connect-Content-Encoding")
	relay := envelope.Relay{
		Dst:        c.w,
		Flush:      c.control.Flush,
		MaxHeld:    c.g.opt.MaxHeldEnvelope,
		Compressed: encoding != "" && encoding != "identity",
		EndStream:  c.translateEndStream,
		Final:      c.endSoon(finalMessage(c.out.Operation.Name, h.Get("Content-Type"))),
	}
	res := relay.Copy(resp.Body)
	switch {
	case res.WriteErr != nil, c.r.Context().Err() != nil && !res.Ended:
		c.clientGone(errors.Join(res.WriteErr, c.r.Context().Err()))
	case res.Ended:
	case res.Torn:
		c.cut(res.ReadErr)
	case res.Final:
		// The command is over and its result was delivered; only the end of
		// the stream is missing. An error here would lose the result.
		c.endStream([]byte("{}"))
	default:
		c.out.Err = res.ReadErr
		c.out.End = c.causeOfEnd(res.ReadErr)
		f := cause.Failure{Cause: c.out.End, SandboxID: c.target.SandboxID}
		c.endStream(f.EndStream())
	}
}

// causeOfEnd is why a stream ended without EndStream.
func (c *dataCall) causeOfEnd(err error) cause.Cause {
	f := cause.Failure{Cause: cause.UpstreamReset}
	switch {
	case errors.Is(err, envelope.ErrInvalidFrame):
		f.Cause = cause.UpstreamInvalid
	case errors.Is(err, envelope.ErrNoEndStream):
		f.Cause = cause.UpstreamEOF
	}
	return c.explain(f).Cause
}

func (c *dataCall) endStream(payload []byte) {
	if _, err := c.w.Write(envelope.Append(nil, envelope.FlagEndStream, payload)); err != nil {
		c.clientGone(err)
	}
}

// announceTrailers tells the client which trailers follow (RFC 9110 section
// 6.6.2), as far as the upstream has said.
func announceTrailers(h, trailer http.Header) {
	for name := range trailer {
		h.Add("Trailer", name)
	}
}

// copyTrailers sends the trailers, announced or not.
func copyTrailers(h, trailer http.Header) {
	for name, values := range trailer {
		h[http.TrailerPrefix+name] = values
	}
}
