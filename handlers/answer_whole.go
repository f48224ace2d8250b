package handlers

import (
	"bytes"
	"io"
	"net/http"

	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// maxWhole is how long an answer of envd may be, in bytes, of which nothing is told
// before all of it has come.
const maxWhole = 64 << 10

// arriveWhole waits for the rest of a short answer, or reports false after it has
// answered with what became of it: behind a head that was sent there is no room for that,
// and SDKs make no exception of their own of an answer that is cut. A unary call needs all
// of its answer anyway; of others the short ones are waited for that say their length.
func (c *dataCall) arriveWhole(resp *http.Response) bool {
	short := resp.ContentLength > 0 && resp.ContentLength <= maxWhole
	unknown := resp.ContentLength < 0 && c.proto == protocol.ConnectUnary
	if !short && !unknown || isThere(resp) {
		return true
	}
	body := resp.Body
	b, more, err := ahead(resp, maxWhole)
	if err != nil {
		c.failedToSend(err)
		return false
	}
	if !more {
		resp.Body = &wholeBody{*bytes.NewReader(b), body}
	}
	return true
}

// wholeBody is a body that is there. Its methods are those of a body that is read from a
// connection.
type wholeBody struct {
	bytes.Reader
	io.Closer
}

func (b *wholeBody) Buffered() int { return b.Len() }
func (b *wholeBody) Ready() int    { return b.Len() }
