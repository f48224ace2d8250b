package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-e2b/gateway/handlers/upstream/portforward"
)

// ErrPortRefused ends a request that was written to a port-forward whose port
// was not reached. It has got no further than to the rocklet.
var ErrPortRefused = errors.New("the rocklet has not reached the port")

// errLost ends what can be read of a port-forward of which nobody knows how the
// connection in the sandbox has ended.
var errLost = fmt.Errorf("the port-forward has ended: %w", syscall.ECONNRESET)

// errNoHalfClose is the answer to who wants to end one direction.
var errNoHalfClose = errors.New("a port-forward ends in both directions or in none")

const (
	// refusalWait is how long a new port-forward is watched before it is used.
	// The rocklet says that a port was reached by saying nothing; that it was
	// not, it says as soon as the kernel of the sandbox does.
	refusalWait = 20 * time.Millisecond
	// receiveBuffer is how much the kernel may hold of what a client has not read
	// yet, in bytes. The rocklet's web server closes a connection whose answer to a
	// ping takes more than 20s, and a ping comes after all that was sent before.
	receiveBuffer = 128 << 10
	// goodbyeWait bounds the write of the close frame. There is room for it
	// unless the rocklet does not read.
	goodbyeWait = 50 * time.Millisecond
)

var frames = sync.Pool{New: func() any { b := make([]byte, 0, portforward.FrameSize); return &b }}

// tunnelled is a connection to a port inside a sandbox, through the rocklet that
// conn leads to. It holds no memory while it waits: what conn has read ahead is
// taken apart where it lies.
type tunnelled struct {
	*conn
	in     portforward.Reader // used by whoever reads
	failed error              // why nothing more comes; used by whoever reads

	writing sync.Mutex           // one frame after the other
	torn    bool                 // a frame was begun and not ended; guarded by writing
	pong    atomic.Pointer[pong] // the answer to a ping until it is sent
	leaving atomic.Bool          // Close was called
}

type pong struct{ payload []byte }

// forward makes c, a fresh connection to a rocklet, one to a port inside its
// sandbox. ctx bounds it. On an error c is closed, and nothing was sent to the port.
func (tr *Transport) forward(ctx context.Context, c net.Conn, to destination) (*tunnelled, error) {
	ahead, err := readAhead(c, tr.userTimeout)
	if err != nil {
		c.Close()
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(receiveBuffer)
	}
	t := &tunnelled{conn: ahead}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	if err = portforward.Open(t.conn, to.address, to.inside); err == nil {
		err = t.settle(tr.refusalWait)
	}
	if !stop() {
		// No timeout of the network's: the machine is there.
		err = fmt.Errorf("%w: it takes too long", portforward.ErrHandshake)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

// settle gives the rocklet time to say that it has not reached the port.
func (t *tunnelled) settle(wait time.Duration) error {
	if t.chunk != nil {
		t.unwrap()
	}
	_ = t.conn.SetReadDeadline(time.Now().Add(wait))
	err := t.await()
	_ = t.conn.SetReadDeadline(time.Time{})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case errors.Is(err, ErrPortRefused):
		return fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
	case err == io.EOF:
		return fmt.Errorf("%w: it was closed at once", errLost)
	default:
		return err
	}
}

// Read implements net.Conn. The error is io.EOF when the connection in the sandbox
// has ended, [ErrPortRefused], or that of a connection that is lost.
func (t *tunnelled) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := t.await(); err != nil {
		return 0, err
	}
	return t.conn.Read(p)
}

// await waits until there is something of the port to read.
func (t *tunnelled) await() error {
	for t.chunk == nil {
		if t.failed != nil {
			return t.failed
		}
		if err := t.fill(); err == io.EOF {
			return fmt.Errorf("%w without a close frame", errLost)
		} else if err != nil {
			return err
		}
		t.unwrap()
	}
	return nil
}

// unwrap takes apart what was read ahead.
func (t *tunnelled) unwrap() {
	n, err := t.in.Unwrap((*t.chunk)[t.start:t.end])
	t.end = t.start + n
	t.ahead.Store(int32(n))
	if n == 0 {
		t.giveBack()
	}
	if ping := t.in.Ping; ping != nil {
		t.in.Ping = nil
		t.answer(ping)
	}
	switch closed := t.in.Closed; {
	case err != nil:
		t.failed = fmt.Errorf("%w: %w", errLost, err)
	case closed == nil:
	case closed.Well():
		t.failed = io.EOF
	case closed.Refused() && !t.in.Carried:
		t.failed = fmt.Errorf("%w: %w", ErrPortRefused, closed)
	default:
		t.failed = fmt.Errorf("%w: %w", errLost, closed)
	}
}

// answer answers a ping. Reading must not wait until the rocklet reads: it may
// wait for us to. The goroutine ends with the write, which ends with the
// connection.
func (t *tunnelled) answer(ping []byte) {
	if t.pong.Swap(&pong{ping}) != nil {
		return // the one that waits sends this one
	}
	go func() {
		t.writing.Lock()
		defer t.writing.Unlock()
		if p := t.pong.Swap(nil); !t.torn {
			// Past the user timeout: while that is set, a machine that is gone is
			// found out late.
			_, err := t.conn.Conn.Write(portforward.AppendPong(nil, p.payload))
			t.torn = err != nil
		}
	}()
}

// Write implements net.Conn.
func (t *tunnelled) Write(p []byte) (written int, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	frame := frames.Get().(*[]byte)
	defer frames.Put(frame)
	for len(p) > 0 {
		if t.torn {
			return written, errLost
		}
		piece := p[:min(len(p), portforward.MaxMessage)]
		wire := portforward.AppendMessage((*frame)[:0], piece)
		n, err := t.conn.Write(wire)
		if err != nil {
			t.torn = true
			// What of it was written nobody can use, but the caller must not
			// believe that it was nothing.
			return written + min(n, len(piece)), err
		}
		written += len(piece)
		p = p[len(piece):]
	}
	return written, nil
}

// CloseWrite says that one direction cannot be ended alone.
func (t *tunnelled) CloseWrite() error { return errNoHalfClose }

// Close implements net.Conn. The rocklet is told, if it listens.
func (t *tunnelled) Close() error {
	if !t.leaving.Swap(true) && t.writing.TryLock() {
		if !t.torn {
			_ = t.conn.SetWriteDeadline(time.Now().Add(goodbyeWait))
			_, _ = t.conn.Conn.Write(portforward.AppendClose(nil))
			t.torn = true
		}
		t.writing.Unlock()
	}
	return t.conn.Close()
}
