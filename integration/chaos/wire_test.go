package chaos

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

// wire is a line between a gateway and what is behind it, that can be cut, slowed and silenced.
type wire struct {
	t       testing.TB
	address string // where the gateway connects
	target  string

	mu       sync.Mutex
	listener net.Listener
	conns    map[*lineOf]struct{}
	delay    time.Duration
	open     chan struct{} // closed while bytes go through
}

// lineOf is one connection of a wire.
type lineOf struct{ near, far *net.TCPConn }

// newWire lays a wire until the test ends.
func newWire(t testing.TB, target string) *wire {
	t.Helper()
	w := &wire{t: t, address: loopback.FreeAddress(t), target: target, conns: map[*lineOf]struct{}{}, open: make(chan struct{})}
	close(w.open)
	w.accept()
	t.Cleanup(func() {
		w.refuse()
		w.heal()
		w.refuse()
	})
	return w
}

// accept listens, if the wire does not.
func (w *wire) accept() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		return
	}
	l, err := net.Listen("tcp", w.address)
	if err != nil {
		w.t.Errorf("the wire to %s: %v", w.target, err)
		return
	}
	w.listener = l
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.join(c.(*net.TCPConn))
		}
	}()
}

func (w *wire) join(near *net.TCPConn) {
	c, err := net.Dial("tcp", w.target)
	if err != nil {
		reset(near)
		return
	}
	line := &lineOf{near, c.(*net.TCPConn)}
	w.mu.Lock()
	w.conns[line] = struct{}{}
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.carry(line.far, line.near) })
	both.Go(func() { w.carry(line.near, line.far) })
	both.Wait()
	w.mu.Lock()
	delete(w.conns, line)
	w.mu.Unlock()
	near.Close()
	c.Close()
}

// carry takes bytes from one end to the other, and the end of them.
func (w *wire) carry(to, from *net.TCPConn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		delay, open := w.delay, w.open
		w.mu.Unlock()
		<-open
		if delay > 0 && n > 0 {
			<-time.After(delay)
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				reset(from)
				return
			}
		}
		if err != nil {
			_ = to.CloseWrite()
			return
		}
	}
}

func (w *wire) each(do func(*lineOf)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		do(c)
	}
}

// cut resets all connections, at both ends.
func (w *wire) cut() { w.each(func(c *lineOf) { reset(c.near); reset(c.far) }) }

// halfClose ends what comes from behind, politely. What the gateway sends still arrives.
func (w *wire) halfClose() { w.each(func(c *lineOf) { _ = c.near.CloseWrite() }) }

// refuse lets nobody connect any more, and resets who has.
func (w *wire) refuse() {
	w.mu.Lock()
	if w.listener != nil {
		w.listener.Close()
		w.listener = nil
	}
	w.mu.Unlock()
	w.cut()
}

// slow delays each piece.
func (w *wire) slow(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = by
}

// stall lets nothing through.
func (w *wire) stall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.open:
		w.open = make(chan struct{})
	default:
	}
}

// heal makes the wire a good one again. What is cut stays cut.
func (w *wire) heal() {
	w.mu.Lock()
	w.delay = 0
	select {
	case <-w.open:
	default:
		close(w.open)
	}
	w.mu.Unlock()
	w.accept()
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
