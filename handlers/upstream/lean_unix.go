//go:build unix

package upstream

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-e2b/gateway/handlers/upstream/h1"
)

// newLean makes the lean client.
func newLean(c Config, t *Transport) *h1.Client {
	return h1.New(h1.Config{
		Dial:          t.dialLean,
		IdleTimeout:   c.IdleTimeout,
		MaxIdlePerKey: c.MaxIdlePerLifecycle,
		MaxIdle:       c.MaxIdle,
	})
}

func (t *Transport) dialLean(ctx context.Context, key string) (h1.Conn, error) {
	defer timeDial(ctx)()
	ctx, cancel := h1.WithTimeout(ctx, t.dialTimeout)
	defer cancel()
	raw, to, err := t.connect(ctx, "tcp", key)
	if err != nil {
		return nil, err
	}
	if to.inside != 0 {
		raw.Close()
		return nil, &DialError{errPoolKey}
	}
	c, err := newLeanConn(raw, t.userTimeout)
	if err != nil {
		raw.Close()
		return nil, &DialError{err}
	}
	return c, nil
}

// leanConn is a conn that costs a request no more than what it reads and writes. Its
// user timeout is set when somebody comes by and finds that it is time.
type leanConn struct {
	*conn
	write func(fd uintptr) (done bool)
	out   []byte // what WriteNow writes
	n     int    // how much it has written
	err   error  // of the system call
	peek  func(fd uintptr)
	quiet bool // what peek has found
}

func newLeanConn(c net.Conn, limit time.Duration) (*leanConn, error) {
	ahead, err := readAhead(c, limit)
	if err != nil {
		return nil, err
	}
	lean := &leanConn{conn: ahead}
	lean.write, lean.peek = lean.writeReady, lean.peekReady
	return lean, nil
}

// Write implements net.Conn.
func (c *leanConn) Write(p []byte) (int, error) {
	c.unacked.note()
	return c.Conn.Write(p)
}

// WriteNow implements [h1.Conn].
func (c *leanConn) WriteNow(p []byte) (int, error) {
	c.unacked.note()
	c.out, c.n, c.err = p, 0, nil
	err := c.raw.Write(c.write)
	if c.out = nil; err == nil && c.err != nil {
		err = os.NewSyscallError("write", c.err)
	}
	if err != nil {
		return c.n, &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	}
	return c.n, nil
}

// writeReady writes what there is room for, and never asks to be called again.
func (c *leanConn) writeReady(fd uintptr) bool {
	n, err := syscall.Write(int(fd), c.out)
	for err == syscall.EINTR {
		n, err = syscall.Write(int(fd), c.out)
	}
	switch err {
	case nil:
		c.n = n
	case syscall.EAGAIN:
	default:
		c.err = err
	}
	return true
}

// Quiet implements [h1.Conn].
func (c *leanConn) Quiet() bool {
	c.quiet = false
	return c.chunk == nil && c.raw.Control(c.peek) == nil && c.quiet
}

// peekReady reads instead of peeking, which costs less: what is not quiet is closed.
func (c *leanConn) peekReady(fd uintptr) {
	var b [1]byte
	_, err := syscall.Read(int(fd), b[:])
	c.quiet = err == syscall.EAGAIN
}

// WatchIdle implements [h1.Conn]. Somebody may be about to use the connection, so it
// shares nothing with Quiet.
func (c *leanConn) WatchIdle() bool {
	quiet := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = errors.Is(err, unix.EAGAIN)
	})
	return err == nil && quiet
}

// WatchUsed implements [h1.Conn].
func (c *leanConn) WatchUsed() { c.unacked.watch(c.raw) }
