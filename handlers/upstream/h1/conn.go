package h1

import (
	"bufio"
	"errors"
	"math"
	"time"
)

const (
	// maxHead is how long the heads of an answer may be together, those before the
	// last included, in bytes.
	maxHead = 256 << 10
	// readBuffer is what a connection holds while it waits. It bounds a line of
	// chunked encoding, and the trailers behind it, in bytes: net/http wants them all
	// in its buffer before it reads one.
	readBuffer = 256
	// trailersBuffer is the same where trailers are asked for: servers of gRPC may send
	// as much of them as of headers, 8 KiB by the habit of gRPC's clients.
	trailersBuffer = 16 << 10
)

var errHeadTooLong = errors.New("the head of the answer is too long")

// conn is a connection of a client.
type conn struct {
	Conn
	br     *bufio.Reader
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
	c.br = bufio.NewReaderSize(limited{c}, readBuffer)
	return c
}

// fit makes the buffer fit the answer that comes next.
func (c *conn) fit(trailers bool) {
	size := readBuffer
	if trailers {
		size = trailersBuffer
	}
	if c.br.Size() != size && c.br.Buffered() == 0 {
		c.br = bufio.NewReaderSize(limited{c}, size)
	}
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
