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
	t.meter.of(to.address).opened(c.conn)
	return c, nil
}

// leanConn is a conn that costs a request no more than what it reads and writes. Its
// user timeout is set when somebody comes by and finds that it is time.
type leanConn struct {
	*conn
	write, ask func(fd uintptr) (done bool)
	out        []byte // what is to be written, nil when that was done
	written    int    // how much was
	err        error  // of the system call
	peek       func(fd uintptr)
	quiet      bool // what peek has found
}

func newLeanConn(c net.Conn, limit time.Duration) (*leanConn, error) {
	ahead, err := readAhead(c, limit)
	if err != nil {
		return nil, err
	}
	lean := &leanConn{conn: ahead}
	lean.write, lean.ask, lean.peek = lean.writeReady, lean.askReady, lean.peekReady
	return lean, nil
}

// Write implements net.Conn.
func (c *leanConn) Write(p []byte) (int, error) {
	c.unacked.note()
	return c.Conn.Write(p)
}

// WriteNow implements [h1.Conn].
func (c *leanConn) WriteNow(p []byte) (int, error) {
	c.begin(p)
	return c.wrote(c.raw.Write(c.write))
}

// errNotQuiet is why a connection from the pool cannot be used any more.
var errNotQuiet = errors.New("the other side has spoken, or gone")

// Ask implements [h1.Conn]. The look whether the connection is quiet begins the wait for
// the answer, too: what comes after it is not missed. A read would try in vain first.
func (c *leanConn) Ask(p []byte) (int, error) {
	if c.chunk != nil {
		return 0, errNotQuiet
	}
	c.begin(p)
	err := c.raw.Read(c.ask)
	if c.out == nil {
		err = nil // of the wait: the next read gets it, too
	}
	return c.wrote(err)
}

func (c *leanConn) begin(p []byte) {
	c.unacked.note()
	c.out, c.written, c.err = p, 0, nil
}

func (c *leanConn) wrote(err error) (int, error) {
	if c.out = nil; err == nil && c.err != nil {
		err = os.NewSyscallError("write", c.err)
	}
	if err != nil {
		return c.written, &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	}
	return c.written, nil
}

// writeReady writes what there is room for, and never asks to be called again.
func (c *leanConn) writeReady(fd uintptr) bool {
	n, err := syscall.Write(int(fd), c.out)
	for err == syscall.EINTR {
		n, err = syscall.Write(int(fd), c.out)
	}
	switch err {
	case nil:
		c.written = n
	case syscall.EAGAIN:
	default:
		c.err = err
	}
	return true
}

// askReady is called first to write, and if that has written all, again when there is
// something to read.
func (c *leanConn) askReady(fd uintptr) bool {
	if c.out == nil {
		return c.readReady(fd)
	}
	if c.peekReady(fd); !c.quiet {
		c.err = errNotQuiet
		return true
	}
	c.writeReady(fd)
	whole := c.err == nil && c.written == len(c.out)
	c.out, c.slow = nil, whole
	return !whole
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
