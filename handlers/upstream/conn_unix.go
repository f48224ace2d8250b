//go:build unix

package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// newConn wraps a connection, unless it is of a kind that it does not know.
// limit is [Config.UserTimeout].
func newConn(c net.Conn, limit time.Duration) net.Conn {
	if ahead, err := readAhead(c, limit); err == nil {
		return ahead
	}
	return c
}

// readAhead wraps a TCP connection.
func readAhead(c net.Conn, limit time.Duration) (*conn, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	ahead := &conn{Conn: c, raw: raw, unacked: userTimeout{limit: limit}}
	ahead.read = ahead.readReady
	ahead.readNow = func(fd uintptr) bool { ahead.readReady(fd); return true }
	return ahead, nil
}

// fill waits until there is something to read, and reads it into the chunk.
func (c *conn) fill() error {
	if err := c.wait(); err != nil {
		return err
	}
	if c.chunk == nil {
		return io.EOF
	}
	return nil
}

// readPast waits until there is something to read, and reads it into p.
func (c *conn) readPast(p []byte) (int, error) {
	c.into, c.n = p, 0
	err := c.wait()
	c.into = nil
	if err == nil && c.n == 0 {
		err = io.EOF
	}
	return c.n, err
}

// look reads what there is. A failure is kept for whoever reads next.
func (c *conn) look() {
	if c.readErr == nil {
		_ = c.raw.Read(c.readNow)
	}
	c.slow = false
}

func (c *conn) wait() (err error) {
	c.slow = false
	if c.readErr == nil {
		err = c.raw.Read(c.read)
	}
	if err == nil && c.readErr != nil {
		err = os.NewSyscallError("read", c.readErr)
	}
	if err != nil {
		return &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	}
	return nil
}

// readReady reads what is there. It is called again when there is something.
func (c *conn) readReady(fd uintptr) (done bool) {
	room := c.into
	if room == nil {
		room = c.room()
	}
	n, err := syscall.Read(int(fd), room)
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), room)
	}
	switch {
	case err == nil && n > 0:
		c.slow = c.slow && n < len(room)
		c.unacked.stop(fd)
		if c.into == nil {
			c.end += n
		}
		c.n = n
		return true
	case c.chunk != nil && c.start == c.end:
		c.giveBack()
	}
	if err == syscall.EAGAIN {
		c.slow = true
		return false
	}
	c.readErr = err
	return true
}
