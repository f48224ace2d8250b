package h1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// fakeConn is a connection without a network. What is written to it is kept; answer
// says what there is to read then.
type fakeConn struct {
	// answer is called with all that was written since the last answer, whenever
	// something is written. It returns nil as long as there is none.
	answer func(written []byte) []byte
	// end is the error of a read when all was read.
	end error

	mu     sync.Mutex
	may    *sync.Cond
	in     []byte
	out    []byte // since the last answer
	all    []byte
	writes int
	asked  bool // there was an answer
	looks  int  // whether it is quiet
	closed bool
}

func newFake(answer func([]byte) []byte, end error) *fakeConn {
	c := &fakeConn{answer: answer, end: end}
	c.may = sync.NewCond(&c.mu)
	return c
}

func (c *fakeConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && len(c.in) == 0 && (c.end == nil || !c.asked) {
		c.may.Wait()
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.in) == 0:
		return 0, c.end
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *fakeConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.writes++
	c.out, c.all = append(c.out, p...), append(c.all, p...)
	if answer := c.answer(c.out); answer != nil {
		c.in, c.out, c.asked = append(c.in, answer...), nil, true
		c.may.Broadcast()
	}
	return len(p), nil
}

func (c *fakeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.may.Broadcast()
	return nil
}

func (c *fakeConn) CloseWrite() error { return nil }

func (c *fakeConn) Buffered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.in)
}

func (c *fakeConn) Ready() int { return c.Buffered() }

func (c *fakeConn) WriteNow(p []byte) (int, error) { return c.Write(p) }

func (c *fakeConn) Ask(p []byte) (int, error) {
	if !c.Quiet() {
		return 0, errors.New("not quiet")
	}
	return c.Write(p)
}

func (c *fakeConn) Quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	return !c.closed && len(c.in) == 0 && (c.end == nil || !c.asked)
}

func (c *fakeConn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *fakeConn) WatchIdle() bool { return c.Quiet() }
func (*fakeConn) WatchUsed()        {}

func (*fakeConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*fakeConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*fakeConn) SetDeadline(time.Time) error      { return nil }
func (*fakeConn) SetReadDeadline(time.Time) error  { return nil }
func (*fakeConn) SetWriteDeadline(time.Time) error { return nil }

// atOnce answers each head of a request.
func atOnce(answer string) func([]byte) []byte {
	return func(written []byte) []byte {
		if bytes.HasSuffix(written, []byte("\r\n\r\n")) {
			return []byte(answer)
		}
		return nil
	}
}

// whole answers each request whose body has ended.
func whole(answer string) func([]byte) []byte {
	return func(written []byte) []byte {
		if _, err := parse(written); err != nil {
			return nil
		}
		return []byte(answer)
	}
}

// parse reads a request that must be whole.
func parse(wire []byte) (body []byte, err error) {
	r, err := http.ReadRequest(newReader(wire))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r.Body)
}

// client makes a client of fake connections. dials counts them.
func client(t testing.TB, change func(*Config), dial func() *fakeConn) (c *Client, dials *int) {
	dials = new(int)
	config := Config{IdleTimeout: time.Minute, MaxIdlePerKey: 32, MaxIdle: 1000}
	config.Dial = func(context.Context, string) (Conn, error) {
		*dials++
		return dial(), nil
	}
	if change != nil {
		change(&config)
	}
	c = New(config)
	t.Cleanup(c.CloseIdle)
	return c, dials
}
