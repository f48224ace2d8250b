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
	return ahead, nil
}

// fill waits until there is something to read, and reads it.
func (c *conn) fill() error {
	c.readErr = nil
	err := c.raw.Read(c.read)
	if err == nil && c.readErr != nil {
		err = os.NewSyscallError("read", c.readErr)
	}
	switch {
	case err != nil:
		return &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	case c.chunk == nil:
		return io.EOF
	}
	return nil
}

// readReady reads what is there. It is called again when there is something.
func (c *conn) readReady(fd uintptr) (done bool) {
	c.chunk = chunks.Get().(*[]byte)
	for {
		n, err := syscall.Read(int(fd), *c.chunk)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n > 0 {
			c.start, c.end = 0, n
			c.unacked.stop(fd)
			return true
		}
		c.giveBack()
		if err != syscall.EAGAIN {
			c.readErr = err
			return true
		}
		return false
	}
}
