package upstream

import (
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
)

// chunks are what connections read into. A connection has one only while there
// is something in it: of 10,000 streams nearly all are silent.
var chunks = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// conn is a TCP connection that reads ahead, as much as there is, and holds no
// memory while it waits. With it the buffer that http.Transport keeps for each
// connection can be small at no cost. It exists where a system call reads
// without waiting (newConn); elsewhere nobody knows how much is there.
type conn struct {
	net.Conn
	raw        syscall.RawConn
	chunk      *[]byte      // nil when all of it was taken
	start, end int          // of what is left in chunk
	ahead      atomic.Int32 // end-start, for those who do not read
	read       func(fd uintptr) (done bool)
	readErr    error // of the system call
	unacked    userTimeout
}

// Read implements net.Conn. Like that of http.Transport's connections it is
// called by one goroutine at a time.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.chunk == nil {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, (*c.chunk)[c.start:c.end])
	if c.start += n; c.start == c.end {
		c.giveBack()
	}
	c.ahead.Store(int32(c.end - c.start))
	return n, nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.unacked.start(c.raw)
	return c.Conn.Write(p)
}

// Buffered is how many bytes can be read without waiting. It may be called at
// any time: after the end of a body http.Transport reads on by itself.
func (c *conn) Buffered() int { return int(c.ahead.Load()) }

// CloseWrite ends one direction. A tunnel's other one may go on.
func (c *conn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

func (c *conn) giveBack() {
	chunks.Put(c.chunk)
	c.chunk, c.start, c.end = nil, 0, 0
}

// body is the body of a response that says how much of it is there.
type body struct {
	io.ReadCloser
	conn *conn
}

// Buffered is how many bytes of the connection were read ahead: at least some of
// them belong to the body, or to what ends it.
func (b body) Buffered() int { return b.conn.Buffered() }

// traced makes http.Transport tell which connection it sends a request on. Over
// TLS there is none: nobody knows how much of a record has arrived.
func traced(ctx context.Context, on **conn) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		*on, _ = info.Conn.(*conn)
	}})
}
