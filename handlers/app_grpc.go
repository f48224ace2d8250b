package handlers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// gRPC is the one protocol of apps that has a place for a failure behind an answer that
// has begun, and outside of what the app has said: the trailers. A stream that loses its
// sandbox is told so there. Its messages are nobody's business, and what the app ends by
// itself, well or not, ends just so.

// endsInTrailers reports an app's answer of gRPC whose end is still to come.
func (c *dataCall) endsInTrailers(resp *http.Response) bool {
	p, _ := protocol.Framing(resp.Header.Get("Content-Type"))
	return p == protocol.GRPC && c.speaksH2C() && resp.StatusCode == http.StatusOK && resp.ContentLength < 0 && !hasGRPCStatus(resp.Header)
}

// answerGRPC relays such an answer.
func (c *dataCall) answerGRPC(resp *http.Response) {
	c.proto = protocol.GRPC
	c.register(true)
	c.writeHead(resp)
	// net/http's HTTP/2 does not look at the context while it waits for the client's body.
	defer context.AfterFunc(c.line, func() { _ = resp.Body.Close() })()
	sent := &messages{Writer: c.w}
	readErr, writeErr := envelope.CopyPlain(sent, c.control.Flush, resp.Body)
	switch {
	case writeErr != nil:
		c.clientGone(writeErr)
	case readErr == nil:
		copyTrailers(c.w.Header(), trailersOf(resp))
	case sent.whole() && c.r.Context().Err() == nil && resetByApp(readErr) && c.overdue():
		// It resets the stream when the call's time is over. Its client would do the same,
		// a moment sooner or later, and tell the reset from any other by its code, which
		// net/http cannot pass on.
		c.out.Err, c.out.End = readErr, cause.Deadline
		c.endStream(protocol.GRPC, cause.Failure{Cause: cause.Deadline})
	case !sent.whole() || c.r.Context().Err() != nil || endedBy(c.line) == cause.OK && resetByApp(readErr):
		c.cut(readErr)
	default:
		c.out.Err = readErr
		c.out.End = c.causeOfEnd(readErr)
		c.endStream(protocol.GRPC, cause.Failure{Cause: c.out.End, SandboxID: c.target.SandboxID})
	}
}

// streamReset is what errors.As finds in net/http's error for one stream of HTTP/2, which
// has no name outside: whatever has these fields (net/http, h2_error.go).
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamReset) Error() string { return fmt.Sprintf("the stream was reset with code %d", e.Code) }

// resetByApp reports a stream that the app itself has ended so: it lives, and means it.
func resetByApp(err error) bool {
	var reset streamReset
	return errors.As(err, &reset)
}

// overdue reports a call whose time is over, by what its client says of it.
func (c *dataCall) overdue() bool {
	d, ok := grpcTimeout(c.r.Header)
	return ok && time.Since(c.line.begun) >= d
}

// grpcTimeout reads Grpc-Timeout: a number of at most eight digits and a unit (gRPC over
// HTTP/2, "Requests").
func grpcTimeout(h http.Header) (time.Duration, bool) {
	values := h["Grpc-Timeout"]
	if len(values) != 1 || len(values[0]) < 2 || len(values[0]) > 9 {
		return 0, false
	}
	digits, unit := values[0][:len(values[0])-1], values[0][len(values[0])-1]
	n := int64(0)
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	of, ok := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[unit]
	if n > int64(math.MaxInt64)/max(int64(of), 1) {
		return math.MaxInt64, ok
	}
	return time.Duration(n) * of, ok
}

// messages passes on what is written to it and knows where the messages of gRPC end: each
// is a byte of flags, a length of four, big-endian, and that many bytes (gRPC over HTTP/2,
// "Length-Prefixed-Message").
type messages struct {
	io.Writer
	prefix [5]byte
	have   int    // bytes of the prefix
	left   uint32 // bytes of the message behind it
}

// Write implements io.Writer.
func (m *messages) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	for rest := p[:n]; len(rest) > 0; {
		if m.left > 0 {
			step := min(uint64(m.left), uint64(len(rest)))
			m.left -= uint32(step)
			rest = rest[step:]
			continue
		}
		got := copy(m.prefix[m.have:], rest)
		m.have += got
		rest = rest[got:]
		if m.have == len(m.prefix) {
			m.have, m.left = 0, binary.BigEndian.Uint32(m.prefix[1:])
		}
	}
	return n, err
}

// whole reports that nothing but whole messages was written.
func (m *messages) whole() bool { return m.have == 0 && m.left == 0 }
