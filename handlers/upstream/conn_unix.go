//go:build unix

package upstream

import (
	"net"
	"syscall"
	"time"
)

// newConn wraps a connection, unless it is of a kind that it does not know.
// limit is [Config.UserTimeout].
func newConn(c net.Conn, limit time.Duration) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	ahead := &conn{Conn: c, raw: raw, unacked: userTimeout{limit: limit}}
	ahead.read = ahead.readReady
	return ahead
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
