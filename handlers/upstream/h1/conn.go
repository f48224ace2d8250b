package h1

import (
	"bufio"
	"errors"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-e2b/gateway/handlers/protocol"
)

const (
	// maxHead is how long the heads of an answer may be together, those before the
	// last included, in bytes.
	maxHead = 256 << 10
	// readBuffer is what a connection holds while it waits. It bounds a line of
	// chunked encoding, and the trailers behind it, in bytes: net/http wants them all
	// in its buffer before it reads one.
	readBuffer = 256
	// trailersBuffer is the same for the answer to a call of gRPC: its servers may send
	// as much of trailers as of headers, 8 KiB by the habit of gRPC's clients.
	trailersBuffer = 16 << 10
)

// longTrailers are the buffers of trailersBuffer bytes that no connection uses.
var longTrailers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, trailersBuffer) }}

var errHeadTooLong = errors.New("the head of the answer is too long")

// conn is a connection of a client.
type conn struct {
	Conn
	br     *bufio.Reader // small, or one of longTrailers
	small  *bufio.Reader
	limit  int64 // how much more may be read
	reused bool  // it has carried an answer
	home   *home

	// Guarded by the lock of its shard.
	prev, next *conn // in the list that it is in
	idle       bool
	idleAt     time.Time
	takings    uint // how often it was taken out of the pool
}

func newConn(raw Conn, h *home) *conn {
	c := &conn{Conn: raw, home: h, limit: math.MaxInt64}
	c.small = bufio.NewReaderSize(limited{c}, readBuffer)
	c.br = c.small
	return c
}

// widen makes room for the trailers of the answer that comes next, if it is one to a call
// of gRPC. It is for who may use the connection alone, as narrow is.
func (c *conn) widen(r *http.Request) {
	if !mayEndInLongTrailers(r.Header) || c.br != c.small || c.br.Buffered() > 0 {
		return
	}
	c.br = longTrailers.Get().(*bufio.Reader)
	c.br.Reset(limited{c})
}

// narrow takes the room back, when nobody reads the answer any more.
func (c *conn) narrow() {
	if c.br == c.small || c.br.Buffered() > 0 {
		return
	}
	c.br.Reset(nil)
	longTrailers.Put(c.br)
	c.br = c.small
}

// mayEndInLongTrailers reports a call of gRPC (gRPC over HTTP/2, "Requests"). That
// trailers are taken is not enough: browsers say so of every request, and 16 KiB for each
// stream of theirs that waits is much.
func mayEndInLongTrailers(h http.Header) bool {
	if !httpguts.HeaderValuesContainsToken(h["Te"], "trailers") {
		return false
	}
	p, _ := protocol.Framing(h.Get("Content-Type"))
	return p == protocol.GRPC
}

// Cut closes the connection, whoever uses it.
func (c *conn) Cut() { c.Conn.Close() }

// limited is what a conn's buffer reads from.
type limited struct{ *conn }

func (l limited) Read(p []byte) (int, error) {
	if l.limit <= 0 {
		return 0, errHeadTooLong
	}
	if int64(len(p)) > l.limit {
		p = p[:l.limit]
	}
	n, err := l.Conn.Read(p)
	l.limit -= int64(n)
	return n, err
}

// ready is how many bytes can be read without waiting.
func (c *conn) ready() int { return c.br.Buffered() + c.Conn.Buffered() }
