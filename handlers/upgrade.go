package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/websocket"
)

// tunnel joins the client with a sandbox that has switched to WebSocket, and
// sees to it that the client is told when the sandbox is lost.
func (c *dataCall) tunnel(resp *http.Response) {
	upstream, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		c.fail(cause.Failure{Cause: cause.Internal})
		return
	}
	// The request's own context ends when the client ends its direction. That
	// must not end the other one.
	c.line = new(lifeline)
	c.line.begin(context.WithoutCancel(c.r.Context()))
	defer c.line.end()
	c.register(true)
	c.dog.stop() // a socket may be silent
	conn, reader, err := c.switchOver(resp)
	if err != nil {
		c.out.Err, c.out.End, c.out.Abort = err, cause.Internal, true
		return
	}
	t := websocket.Tunnel{Client: conn, ClientReader: reader, Upstream: upstream, Stall: max(c.g.opt.ClientStall, 0), Passed: c.dog.pass, Why: c.whyClosed}
	if res := t.Run(c.line); res.ClientErr != nil && !res.Lost {
		c.out.Err, c.out.End = res.ClientErr, cause.ClientGone
		if errors.Is(res.ClientErr, os.ErrDeadlineExceeded) {
			c.out.End = cause.ClientStalled
		}
		if by := endedBy(c.line); by != cause.OK {
			c.out.End = by
		}
	}
}

// switchOver tells the client that the connection is open, and returns its side of it,
// and what is to be read of that.
func (c *dataCall) switchOver(resp *http.Response) (net.Conn, io.Reader, error) {
	h := c.w.Header()
	c.answerHeaders(h, resp)
	delete(h, "Content-Length") // of nothing that comes
	c.answered = true
	if stream := websocket.Stream(c.r); stream != nil {
		delete(h, "Sec-Websocket-Accept") // it answers a key that is not the client's
		c.w.WriteHeader(http.StatusOK)
		conn := &websocket.Duplex{Body: stream, Answer: c.w, Control: &c.control}
		return conn, conn, c.control.Flush()
	}
	websocket.Mark(h)
	c.w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := c.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	// What came right behind the handshake was read already. The rest is read
	// from the connection itself: through net/http's reader the end of the
	// client's direction would end the request.
	early, _ := buffered.Peek(buffered.Reader.Buffered())
	return conn, io.MultiReader(bytes.NewReader(early), conn), nil
}

// whyClosed finds out why a tunnel has ended, and how that is told.
func (c *dataCall) whyClosed(err error) (code uint16, reason string) {
	f := cause.Failure{Cause: cause.UpstreamReset}
	if errors.Is(err, io.EOF) {
		f.Cause = cause.UpstreamEOF
	}
	f = c.explain(f)
	f.SandboxID = c.target.SandboxID
	c.out.Err, c.out.End = err, f.Cause
	return f.WebSocketClose()
}
