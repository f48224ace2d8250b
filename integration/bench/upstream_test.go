package bench

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

// messageSize is the size of a message, in bytes, its prefix not counted.
const messageSize = 1 << 10

// loadHeader tells the upstream what to answer: "stream <messages>", "hold", or
// "file <bytes>". Without it the answer is [answer].
const loadHeader = "Bench-Load"

var (
	answer    = []byte(`{"entry":{"name":"a.txt","type":"FILE_TYPE_FILE","path":"/home/user/a.txt"}}  `)
	message   = envelope.Append(nil, 0, []byte(`{"event":{"data":{"stdout":"`+strings.Repeat("QUJD", (messageSize-32)/4)+`"}}}`+" "))
	endStream = envelope.Append(nil, envelope.FlagEndStream, []byte(`{}`))
)

// upstream speaks HTTP/1.1 like a server that flushes every message, but costs
// next to nothing: what is measured shall be the proxy.
type upstream struct {
	net.Listener
	unary []byte // a whole answer
	batch []byte // inBatch chunks of a stream
	block []byte // of a file

	mu   sync.Mutex
	held []net.Conn // streams that have had one message and wait
}

const (
	// inBatch is how many messages the upstream hands to the kernel at once.
	inBatch = 32
	// inBlock is how much of a file it does, in bytes.
	inBlock = 256 << 10
)

func newUpstream(tb testing.TB) *upstream {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	u := &upstream{
		Listener: l,
		unary:    fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer),
		batch:    bytes.Repeat(chunk(message), inBatch),
		block:    bytes.Repeat([]byte("0123456789abcdef"), inBlock/16),
	}
	tb.Cleanup(func() {
		l.Close()
		for _, c := range u.release() {
			c.Close()
		}
	})
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

// release hands out the streams that wait, and forgets them.
func (u *upstream) release() []net.Conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	held := u.held
	u.held = nil
	return held
}

// serve answers the requests of a connection until one is held, or the
// connection ends.
func (u *upstream) serve(c net.Conn) {
	in := reader{conn: c, buf: make([]byte, 2<<10)}
	for {
		head, err := in.head()
		if err != nil {
			break
		}
		load := strings.Clone(string(field(head, loadHeader)))
		length, _ := strconv.ParseInt(string(field(head, "Content-Length")), 10, 64)
		if in.skip(length) != nil {
			break
		}
		what, size, _ := strings.Cut(load, " ")
		n, _ := strconv.ParseInt(size, 10, 64)
		switch what {
		case "":
			_, err = c.Write(u.unary)
		case "stream":
			err = u.stream(c, n)
		case "file":
			err = u.file(c, n)
		case "hold":
			u.hold(c)
			return
		}
		if err != nil {
			break
		}
	}
	c.Close()
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n"

var streamEnd = append(chunk(endStream), "0\r\n\r\n"...)

// stream sends n messages as fast as they are taken.
func (u *upstream) stream(c net.Conn, n int64) error {
	if _, err := c.Write(append([]byte(streamHead), chunk(message)...)); err != nil {
		return err
	}
	for n--; n > 0; n -= inBatch {
		if _, err := c.Write(u.batch[:int64(len(u.batch))/inBatch*min(n, inBatch)]); err != nil {
			return err
		}
	}
	_, err := c.Write(streamEnd)
	return err
}

func (u *upstream) file(c net.Conn, n int64) error {
	if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", n); err != nil {
		return err
	}
	for ; n > 0; n -= inBlock {
		if _, err := c.Write(u.block[:min(n, inBlock)]); err != nil {
			return err
		}
	}
	return nil
}

// hold sends one message and leaves the stream to whoever calls release, who
// waits until the message has arrived.
func (u *upstream) hold(c net.Conn) {
	u.mu.Lock()
	u.held = append(u.held, c)
	u.mu.Unlock()
	// Whoever reads will notice if it cannot be written.
	_, _ = c.Write(append([]byte(streamHead), chunk(message)...))
}

func chunk(b []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b) }
