//go:build !unix

package upstream

import "net"

// newConn leaves a connection as it is: there is no read that does not wait.
func newConn(c net.Conn) net.Conn { return c }
