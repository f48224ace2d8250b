//go:build !unix

package upstream

import (
	"net"
	"time"
)

// newConn leaves a connection as it is: there is no read that does not wait.
func newConn(c net.Conn, _ time.Duration) net.Conn { return c }

// readAhead wraps a connection of which one read is what it is ahead.
func readAhead(c net.Conn, _ time.Duration) (*conn, error) { return &conn{Conn: c}, nil }

// fill reads what there is. It holds a chunk while it waits.
func (c *conn) fill() error {
	c.chunk = chunks.Get().(*[]byte)
	n, err := c.Conn.Read(*c.chunk)
	if n > 0 {
		c.start, c.end = 0, n
		return nil
	}
	c.giveBack()
	return err
}

// readPast reads into p.
func (c *conn) readPast(p []byte) (int, error) { return c.Conn.Read(p) }

// look leaves things as they are: it would wait.
func (c *conn) look() {}
