package module

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// clientConn is a client's TCP connection, made cheap for net/http's server of
// HTTP/1.1. That one listens for the client's leaving while it serves a request:
// for each it starts a goroutine that reads one byte, and sets deadlines to
// interrupt it. A clientConn ends such a read at once and has the kernel tell it
// when the client leaves, see [hangups]. So a silent stream takes a goroutine
// less, too. Deadlines for reading get to the socket when something is read that
// would outlast them.
type clientConn struct {
	*net.TCPConn
	// cancel cancels the contexts of all requests on the connection, as net/http
	// does when its read of one byte fails.
	cancel context.CancelFunc

	mu sync.Mutex
	// plain is set as soon as the connection has to be like any other: a handler
	// has taken it over, HTTP/2 is spoken on it, or it is closed.
	plain bool
	// end is the last byte of the buffer that net/http reads requests into, which
	// tells a read into it from one that listens for the client's leaving.
	end *byte
	// reading is set while somebody waits at the socket, and listening from when
	// net/http began to listen until it reads what comes next.
	reading, listening bool
	// gone is set when the client has sent its last byte, or reset the connection.
	gone    bool
	watched uint64 // by [hangups], under this number; 0 is not yet
	// deadline is what the server asked for, and set what the socket has. Zero is
	// never.
	deadline, set time.Time
	writeDeadline bool
}

// newClientConn returns a connection for net/http's server. Who makes one sets
// cancel before it is read from.
func newClientConn(conn *net.TCPConn) net.Conn { return &clientConn{TCPConn: conn} }

// withCancel returns the context for the requests on a connection.
func withCancel(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*clientConn); ok {
		ctx, c.cancel = context.WithCancel(ctx)
	}
	return ctx
}

// takeOver makes a connection that a handler takes over be like any other.
func takeOver(conn net.Conn) {
	if c, ok := conn.(*clientConn); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bePlain()
	}
}

// bePlain needs mu.
func (c *clientConn) bePlain() {
	c.plain, c.listening, c.end = true, false, nil
	_ = c.TCPConn.SetReadDeadline(c.deadline)
}

// Read implements [net.Conn].
func (c *clientConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	if c.plain || len(p) == 0 {
		c.mu.Unlock()
		return c.TCPConn.Read(p)
	}
	first := c.end == nil
	if end := &p[:cap(p)][cap(p)-1]; first {
		c.end = end
	} else if c.listening = len(p) == 1 && end != c.end; c.listening && !c.gone && c.watch() {
		c.mu.Unlock()
		return 0, nil // which makes net/http's goroutine end, and nothing else
	}
	defer c.mu.Unlock()
	if sooner(c.deadline, c.set) {
		c.setReadDeadline()
	}
	for {
		n, err := c.readSocket(p)
		if err == nil {
			if first && (n < len(preface) || string(p[:len(preface)]) == preface) {
				c.bePlain()
			}
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.plain || !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
			return n, err
		}
		c.setReadDeadline() // what has passed is one from before
	}
}

// preface is how HTTP/2 begins: with what is no method of HTTP/1.1. A client that
// sends less at first is not told apart, and its connection is like any other.
const preface = "PRI"

// readSocket needs mu, and leaves it while it reads.
func (c *clientConn) readSocket(p []byte) (int, error) {
	c.reading = true
	c.mu.Unlock()
	n, err := c.TCPConn.Read(p)
	c.mu.Lock()
	c.reading = false
	return n, err
}

// watch needs mu. It reports false when the kernel does not watch the connection.
func (c *clientConn) watch() bool {
	if c.watched == 0 {
		c.watched = watching().add(c)
	}
	return c.watched != 0
}

// hungUp is what [hangups] say, once.
func (c *clientConn) hungUp() {
	c.mu.Lock()
	c.gone = true
	listening := c.listening
	c.mu.Unlock()
	if listening && nothingMore(c.TCPConn) {
		c.cancel()
	}
}

// SetReadDeadline implements [net.Conn].
func (c *clientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.plain {
		return c.TCPConn.SetReadDeadline(t)
	}
	if c.reading && sooner(t, c.set) {
		c.setReadDeadline()
	}
	return nil
}

// setReadDeadline needs mu.
func (c *clientConn) setReadDeadline() {
	c.set = c.deadline
	_ = c.TCPConn.SetReadDeadline(c.set) // fails for a closed connection, as reading does
}

// sooner compares deadlines.
func sooner(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

// SetWriteDeadline implements [net.Conn]. The server sets none over and over.
func (c *clientConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.IsZero() && !c.writeDeadline {
		return nil
	}
	c.writeDeadline = !t.IsZero()
	return c.TCPConn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *clientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close implements [net.Conn].
func (c *clientConn) Close() error {
	c.mu.Lock()
	c.plain = true // so it is not watched from now on
	watched := c.watched
	c.mu.Unlock()
	if watched != 0 {
		watching().remove(watched)
	}
	return c.TCPConn.Close()
}
