// Package loopback serves bytes on this machine's own network, and gives addresses there: for tests whose server
// must do what no HTTP server would. It knows no protocol and nothing of the gateway, so
// that the tests of every package may use it.
package loopback

import (
	"net"
	"testing"
)

// Serve listens on a free port of 127.0.0.1 until the test ends, and has each connection
// served in a goroutine. serve closes the connection, or hands it on.
func Serve(tb testing.TB, serve func(net.Conn)) (address string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}
