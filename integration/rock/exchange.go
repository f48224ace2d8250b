package rock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// exchange is one request with its answer under the switchboard. The handler runs in a goroutine of its own and writes to the
// exchange, so that a fault can end the answer at once while the handler is still busy.
type exchange struct {
	role                        Role
	addr, sandbox, method, path string
	user                        string // see Match.User

	rw      http.ResponseWriter
	conn    *net.TCPConn
	request io.Reader     // the request's body, to be emptied when nobody reads it any more
	release chan struct{} // closed by Faults.Clear
	faults  []*pendingFault
	cut     chan Kind // the fault that ends the exchange; capacity 1
	gone    <-chan struct{}
	cutting atomic.Bool // set with cut: the handler's further bytes go nowhere, even before run takes rw away

	mu       sync.Mutex
	header   http.Header // the handler's; copied to rw when it is sent, because the handler may outlive rw
	status   int
	sent     bool  // headers are on their way
	ended    bool  // rw must not be touched again
	wrote    int64 // bytes of body
	declared int64 // by Lie; -1: no lie
}

type pendingFault struct {
	armed *Armed
	at    int64
	spent bool
}

var errEnded = errors.New("rock: a fault ended the answer")

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

// Unwrap lets http.ResponseController reach deadlines and Hijack.
func (x *exchange) Unwrap() http.ResponseWriter { return x.rw }

// Hijack implements http.Hijacker, for a switch of protocols.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent || x.ended || x.cutting.Load() {
		return nil, nil, errEnded
	}
	x.sent, x.status = true, http.StatusSwitchingProtocols
	return http.NewResponseController(x.rw).Hijack()
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		return
	}
	if x.strike(BeforeHeaders) != nil {
		return
	}
	x.sendHeader(status, x.header)
	_ = x.strikeBody()
}

func (x *exchange) sendHeader(status int, header http.Header) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent || x.ended || x.cutting.Load() {
		return
	}
	x.sent, x.status = true, status
	h := x.rw.Header()
	for k, v := range header {
		h[k] = append([]string(nil), v...)
	}
	for _, f := range x.faults {
		if f.armed.fault.Kind == Lie && !f.spent && f.armed.take() {
			f.spent = true
			real, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
			if err != nil {
				real = 0
			}
			x.declared = max(0, real+f.armed.fault.Add)
			h.Set("Content-Length", strconv.FormatInt(x.declared, 10))
		}
	}
	x.rw.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	if !x.headerSent() {
		x.WriteHeader(http.StatusOK)
	}
	total := 0
	for len(p) > 0 {
		n := int64(len(p))
		for _, f := range x.faults {
			if k := f.armed.fault.Kind; !f.spent && k != Lie && k != AnswerWith && f.at > x.wrote {
				n = min(n, f.at-x.wrote)
			}
		}
		if err := x.send(p[:n]); err != nil {
			return total, err
		}
		total += int(n)
		p = p[n:]
		if err := x.strikeBody(); err != nil {
			return total, err
		}
	}
	return total, nil
}

// send passes bytes on: through net/http up to the declared length, past it as stray bytes.
func (x *exchange) send(p []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.cutting.Load() {
		return errEnded
	}
	framed := p
	if x.declared >= 0 {
		framed = p[:max(0, min(int64(len(p)), x.declared-x.wrote))]
	}
	x.wrote += int64(len(p))
	if len(framed) > 0 {
		if _, err := x.rw.Write(framed); err != nil {
			return err
		}
	}
	if stray := p[len(framed):]; len(stray) > 0 {
		if err := http.NewResponseController(x.rw).Flush(); err != nil {
			return err
		}
		if _, err := x.conn.Write(stray); err != nil {
			return err
		}
	}
	return nil
}

// FlushError implements what http.ResponseController looks for.
func (x *exchange) FlushError() error {
	if !x.headerSent() {
		x.WriteHeader(http.StatusOK)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || !x.sent { // flushing would send net/http's own idea of a header
		return errEnded
	}
	return http.NewResponseController(x.rw).Flush()
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() }

func (x *exchange) headerSent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent || x.ended || x.cutting.Load()
}

// strikeBody fires what is due at the present byte.
func (x *exchange) strikeBody() error {
	for _, f := range x.faults {
		if f.spent || f.at < 0 || f.at != x.wrote {
			continue
		}
		if err := x.fire(f); err != nil {
			return err
		}
	}
	return nil
}

// strike fires what is due at a place before the body.
func (x *exchange) strike(place int64) error {
	for _, f := range x.faults {
		if f.spent || f.at != place || (place == BeforeHeaders && x.headerSent()) {
			continue
		}
		if err := x.fire(f); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) fire(f *pendingFault) error {
	switch f.armed.fault.Kind {
	case Lie:
		return nil // sendHeader's
	case Delay:
		if !f.armed.take() {
			f.spent = true
			return nil
		}
		if f.at += f.armed.fault.Every; f.armed.fault.Every <= 0 || f.at <= 0 {
			f.spent = true
		}
		x.push()
		return x.pause(f.armed.fault.Wait)
	case AnswerWith:
		f.spent = true
		if f.armed.take() {
			a := f.armed.fault.Answer
			x.sendHeader(a.Status, a.Header)
			x.mu.Lock()
			if !x.ended {
				_, _ = x.rw.Write([]byte(a.Body))
			}
			x.ended = true
			x.mu.Unlock()
			x.cutNow(CleanEnd)
			return errEnded
		}
		return nil
	default:
		f.spent = true
		if !f.armed.take() {
			return nil
		}
		x.push()
		x.end() // before the handler can write one more byte
		x.cutNow(f.armed.fault.Kind)
		return errEnded
	}
}

// push pushes out what was written, if anything was.
func (x *exchange) push() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent && !x.ended {
		_ = http.NewResponseController(x.rw).Flush()
	}
}

func (x *exchange) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-x.release:
		return nil
	case <-x.gone:
		return errEnded
	}
}

// cutNow asks for the end of the exchange; false when it is ending already.
func (x *exchange) cutNow(k Kind) bool {
	select {
	case x.cut <- k:
		x.cutting.Store(true)
		if k == Reset || k == Close {
			// A handler blocked in a write to a peer that does not read holds the lock; do not wait for it.
			_ = x.conn.SetWriteDeadline(time.Now().Add(drainWait))
		}
		return true
	default:
		return false
	}
}

// run serves the exchange to its end. It panics with http.ErrAbortHandler when the answer was cut.
func (x *exchange) run(ctx, server context.Context, start func(f func()) bool, serve func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(server, cancel)()
	x.gone = ctx.Done()
	done := make(chan any, 1)
	if !start(func() {
		defer func() { done <- recover() }()
		if x.strike(BeforeHandler) == nil {
			serve(ctx)
			if !x.headerSent() {
				x.WriteHeader(http.StatusOK)
			}
		}
	}) {
		panic(http.ErrAbortHandler)
	}
	var kind Kind
	select {
	case kind = <-x.cut:
	case p := <-done:
		select {
		case kind = <-x.cut: // the handler returned because it was cut
		default:
			if p != nil {
				x.end()
				panic(p)
			}
			x.end()
			return
		}
	}
	x.finish(kind, start)
}

// end takes rw away from the handler.
func (x *exchange) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
}

func (x *exchange) finish(kind Kind, start func(f func()) bool) {
	x.push()
	x.end()
	switch kind {
	case CleanEnd:
		return
	case Reset:
		drain(x.conn)
		_ = x.conn.SetLinger(0)
		_ = x.conn.Close()
	case Close:
		drain(x.conn)
		_ = x.conn.CloseWrite()
		// Closing with unread bytes of the request would turn the FIN into RST.
		t := time.NewTimer(drainWait)
		defer t.Stop()
		x.untilGone(start, t.C)
	case HalfClose:
		drain(x.conn)
		_ = x.conn.CloseWrite()
		x.untilGone(start, nil)
	default: // Silence
		x.untilGone(start, nil)
	}
	panic(http.ErrAbortHandler)
}

// untilGone waits for the peer to leave. net/http notices that only once the request's body has been read.
func (x *exchange) untilGone(start func(f func()) bool, limit <-chan time.Time) {
	start(func() { _, _ = io.Copy(io.Discard, x.request) })
	select {
	case <-x.gone:
	case <-x.release:
	case <-limit:
	}
}

// drainWait bounds how long a cut waits for the peer's kernel to take the bytes before it.
const drainWait = time.Second

// drain waits until the peer's kernel has acknowledged everything, because RST throws away what is still queued.
func drain(conn *net.TCPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	for deadline := time.Now().Add(drainWait); time.Now().Before(deadline); {
		queued := 0
		if err := raw.Control(func(fd uintptr) { queued, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil || queued == 0 {
			return
		}
		t := time.NewTimer(100 * time.Microsecond)
		<-t.C
	}
}
