//go:build !unix

package upstream

import (
	"net"
	"time"
)

// newConn leaves a connection as it is: there is no read that does not wait.
func newConn(c net.Conn, _ time.Duration) net.Conn { return c }
