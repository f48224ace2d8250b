package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

// messageSize is the size of a message, in bytes, its prefix not counted.
const messageSize = 1 << 10

// messagesHeader tells the upstream how many messages to send.
const messagesHeader = "Bench-Messages"

var (
	message   = envelope.Append(nil, 0, []byte(`{"event":{"data":{"stdout":"`+strings.Repeat("QUJD", (messageSize-32)/4)+`"}}}`+" "))
	endStream = envelope.Append(nil, envelope.FlagEndStream, []byte(`{}`))
)

// upstream speaks HTTP/1.1 like a server that flushes every message, but costs
// next to nothing: what is measured shall be the proxy.
type upstream struct {
	net.Listener
	batch []byte // as many chunks as are written at once
}

// inBatch is how many messages the upstream hands to the kernel at once.
const inBatch = 32

func newUpstream(b *testing.B) *upstream {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	u := &upstream{l, bytes.Repeat(chunk(message), inBatch)}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u
}

func (u *upstream) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		n, err := strconv.Atoi(r.Header.Get(messagesHeader))
		if err != nil {
			return
		}
		head := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", r.Header.Get("Content-Type"))
		if _, err := c.Write(append(head, chunk(message)...)); err != nil {
			return
		}
		for n--; n > 0; n -= inBatch {
			if _, err := c.Write(u.batch[:len(u.batch)/inBatch*min(n, inBatch)]); err != nil {
				return
			}
		}
		if _, err := c.Write(append(chunk(endStream), "0\r\n\r\n"...)); err != nil {
			return
		}
	}
}

func chunk(b []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b) }
