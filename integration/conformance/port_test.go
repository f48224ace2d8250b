package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net"
)

// anyVersion is one port for both versions of HTTP, as servers of gRPC in Go have it: the suite's own server has one for each. Who
// speaks HTTP/2 without TLS begins with "PRI" (RFC 9113 section 3.4), which is no method.
type anyVersion struct {
	servers [http2 + 1]int // the ports, by version
}

// listen opens the port, for as long as the process lives.
func (a *anyVersion) listen() (port int, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go a.pass(c)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// pass passes a connection on to its server, the end of each direction by itself.
func (a *anyVersion) pass(client net.Conn) {
	defer client.Close()
	in := bufio.NewReader(client)
	first, err := in.Peek(3)
	if err != nil {
		return
	}
	version := http1
	if string(first) == "PRI" {
		version = http2
	}
	server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", a.servers[version]))
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, in)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}
