//go:build !linux

package module

import (
	"context"
	"net"
)

// newClientConn, withCancel and takeOver are for Linux only: elsewhere net/http
// listens for the client's leaving by itself.
func newClientConn(conn *net.TCPConn) net.Conn                   { return conn }
func withCancel(ctx context.Context, _ net.Conn) context.Context { return ctx }
func takeOver(net.Conn)                                          {}
