package idle

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

var (
	started   = envelope.Append(nil, 0, []byte(`{"event":{"start":{"pid":7}}}`))
	endStream = envelope.Append(nil, envelope.FlagEndStream, []byte(`{}`))
)

// upstream answers every stream with one message and keeps silent until it is
// told to end them.
type upstream struct {
	net.Listener
	mu   sync.Mutex
	open []*net.TCPConn
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{Listener: l}
	t.Cleanup(func() {
		l.Close()
		u.each(func(_ int, c *net.TCPConn) { c.Close() })
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c.(*net.TCPConn))
		}
	}()
	return u
}

func (u *upstream) serve(c *net.TCPConn) {
	r, err := http.ReadRequest(bufio.NewReaderSize(c, 1<<10))
	if err != nil {
		c.Close()
		return
	}
	u.mu.Lock()
	u.open = append(u.open, c)
	u.mu.Unlock()
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", r.Header.Get("Content-Type"))
	c.Write(chunk(started))
}

func chunk(b []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b) }

// each hands out the connections of all streams and forgets them.
func (u *upstream) each(do func(i int, c *net.TCPConn)) {
	u.mu.Lock()
	open := u.open
	u.open = nil
	u.mu.Unlock()
	for i, c := range open {
		do(i, c)
	}
}

// endAll ends every other stream well and the rest with a reset.
func (u *upstream) endAll() {
	u.each(func(i int, c *net.TCPConn) {
		if i%2 == 0 {
			c.Write(append(chunk(endStream), "0\r\n\r\n"...))
		} else {
			c.SetLinger(0)
		}
		c.Close()
	})
}
