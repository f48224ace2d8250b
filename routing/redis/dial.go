package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"
)

// dialer opens connections to Redis and to sentinels.
type dialer struct {
	timeout time.Duration
	tls     *tls.Config // nil: cleartext
	hello   bool        // the server may be sent a HELLO
}

func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var plain net.Dialer
	conn, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		config := d.tls
		if config.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				conn.Close()
				return nil, err
			}
			config = config.Clone()
			config.ServerName = host
		}
		encrypted := tls.Client(conn, config)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, fmt.Errorf("TLS with %s: %w", address, err)
		}
		conn = encrypted
	}
	if d.hello {
		return conn, nil
	}
	silent := &withoutHello{Conn: conn}
	if raw, ok := conn.(syscall.Conn); ok {
		return struct {
			*withoutHello
			syscall.Conn // lets the pool see that an idle connection was closed
		}{silent, raw}, nil
	}
	return silent, nil
}

// withoutHello keeps go-redis from sending HELLO, which it does for RESP2 as
// well: proxies that do not know the command may close the connection on it
// (Field report G06). It answers the first command of a connection, if that is
// a HELLO, in the server's place; go-redis then logs in with AUTH.
//
// go-redis writes the command in one piece and reads its answer before
// anything else is written, so that no locking is needed.
type withoutHello struct {
	net.Conn
	started bool
	answer  []byte
}

func (c *withoutHello) Write(p []byte) (int, error) {
	if !c.started {
		c.started = true
		if isHello(p) {
			c.answer = []byte("-ERR unknown command 'HELLO'\r\n")
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

func (c *withoutHello) Read(p []byte) (int, error) {
	if len(c.answer) > 0 {
		n := copy(p, c.answer)
		c.answer = c.answer[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// isHello reports whether p is a RESP array whose first element is HELLO.
func isHello(p []byte) bool {
	if len(p) == 0 || p[0] != '*' {
		return false
	}
	_, command, ok := bytes.Cut(p, []byte("\r\n"))
	return ok && len(command) > 11 && bytes.EqualFold(command[:11], []byte("$5\r\nhello\r\n"))
}
