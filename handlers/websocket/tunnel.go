package websocket

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Tunnel joins a client and an upstream that have both switched to WebSocket.
type Tunnel struct {
	// Client is the client's connection, ClientReader what is to be read of it:
	// bytes that came right behind the handshake, then the connection.
	Client       net.Conn
	ClientReader io.Reader
	// Upstream is the other side. Its reader has the bytes that came right
	// behind its handshake.
	Upstream io.ReadWriteCloser
	// Stall bounds one write to the client, of at most 32 KiB, and the silence
	// of the upstream once the client has ended its direction. Default (0): no
	// bound.
	Stall time.Duration
	// Passed is told how many bytes went by, in either direction, by two goroutines. It
	// must return soon. Optional.
	Passed func(n int)
	// Why is asked once when the upstream has ended without a close frame,
	// or the context of Run has: with which code and reason is the client's
	// side closed? The error is the upstream's, io.EOF for a polite end, or
	// the context's cause.
	Why func(error) (code uint16, reason string)
}

// Result is how a tunnel ended.
type Result struct {
	// Lost: the upstream or the gateway ended it without a close frame of the
	// upstream, and Why was asked.
	Lost bool
	// ClientErr is why the client's side failed, nil if it did not. A client
	// that has ended its direction without a close frame has failed when the
	// upstream stayed silent afterwards.
	ClientErr error

	// torn: it was lost inside a frame, so that the client could not be told.
	torn bool
}

const (
	// frameGrace is how long a frame may take to its end when the gateway ends
	// a tunnel in its midst.
	frameGrace = time.Second
	// lastWords is how long the client may take to read what was sent to it,
	// and to answer a close frame.
	lastWords = 2 * time.Second
)

// tunnel is the state of a tunnel that runs.
type tunnel struct {
	*Tunnel
	ctx context.Context
	// boundary has a value when a frame has ended after the context has.
	boundary chan struct{}
	// goodbye is closed when the client has sent its close frame, or nothing
	// more will come from it.
	goodbye chan struct{}
	// over is closed when the upstream's direction is.
	over chan struct{}
	// listening is since when the upstream is waited for, as the time since
	// start; 0 while the client is written to.
	start     time.Time
	listening atomic.Int64

	mu      sync.Mutex
	down    Frames // from the upstream to the client
	stopped bool   // nothing more goes to the client

	upMu    sync.Mutex
	up      Frames // from the client to the upstream
	upEnded bool   // the client has ended its direction
	upErr   error  // why the client's direction has failed

	givenUp atomic.Bool // the upstream had its time to answer the client's close frame
}

// errDeserted is the failure of a client of which nothing is left but the end
// of its direction.
var errDeserted = errors.New("the client has ended its direction, and the upstream sent nothing more")

// Run carries bytes in both directions until both have ended, or either side
// has failed, or ctx ends. It closes both sides.
func (t *Tunnel) Run(ctx context.Context) Result {
	r := &tunnel{
		Tunnel: t, ctx: ctx, start: time.Now(),
		boundary: make(chan struct{}, 1), goodbye: make(chan struct{}), over: make(chan struct{}),
	}
	var others sync.WaitGroup
	others.Go(r.carryUp)
	others.Go(r.watch)
	res := r.carryDown()
	close(r.over)
	if res.ClientErr == nil && !res.torn {
		r.parting()
	}
	t.Upstream.Close()
	t.Client.Close()
	others.Wait()
	return res
}

// carryDown copies from the upstream to the client and closes the client's side
// when the upstream's has ended.
func (t *tunnel) carryDown() Result {
	var err error
	var room room
	defer room.free()
	for err == nil {
		var n int
		t.listening.Store(int64(t.now()))
		n, err = t.Upstream.Read(room.next())
		t.listening.Store(0)
		t.passed(n)
		if werr := t.forward(room.got(n)); werr != nil {
			return Result{ClientErr: werr}
		}
	}
	if ended := context.Cause(t.ctx); ended != nil {
		err = ended
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.down.Closed() {
		return Result{}
	}
	left, goodbye := t.clientHasLeft()
	polite := errors.Is(err, io.EOF) || t.givenUp.Load()
	if left && t.ctx.Err() == nil && (polite || !goodbye) {
		if goodbye && t.down.AtBoundary() {
			_ = t.closeClient(closeNormal, "") // the upstream owed it (RFC 6455 section 5.5.1)
		}
		return Result{}
	}
	if cerr := t.clientErr(); cerr != nil {
		// It was the client's end that has ended the upstream's.
		return Result{ClientErr: cerr}
	}
	code, reason := t.Why(err)
	if !t.down.AtBoundary() {
		return Result{Lost: true, torn: true}
	}
	return Result{Lost: true, ClientErr: t.closeClient(code, reason)}
}

// closeClient sends the client a close frame.
func (t *tunnel) closeClient(code uint16, reason string) error {
	_ = t.Client.SetWriteDeadline(time.Now().Add(lastWords))
	_, err := t.Client.Write(CloseFrame(code, reason))
	return err
}

// closeNormal is that "the purpose for which the connection was established has been
// fulfilled" (RFC 6455 section 7.4.1).
const closeNormal = 1000

func (t *tunnel) passed(n int) {
	if t.Passed != nil {
		t.Passed(n)
	}
}

// forward sends bytes to the client. Once the gateway ends the tunnel it sends
// no more than the rest of the frame.
func (t *tunnel) forward(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil
	}
	if t.Stall > 0 {
		_ = t.Client.SetWriteDeadline(time.Now().Add(t.Stall))
	}
	ending := t.ctx.Err() != nil
	if ending {
		_ = t.Client.SetWriteDeadline(time.Now().Add(lastWords))
	}
	if n := -1; ending {
		if n = t.down.LastBoundary(b); n >= 0 {
			b = b[:n]
		}
	}
	_, err := t.Client.Write(b)
	t.down.Pass(b)
	if ending && t.down.AtBoundary() {
		t.stopped = true
		select {
		case t.boundary <- struct{}{}:
		default:
		}
	}
	return err
}

// watch ends the tunnel when its context ends: at once between two frames, or
// when the frame that is under way has ended.
func (t *tunnel) watch() {
	select {
	case <-t.ctx.Done():
	case <-t.over:
		return
	}
	_ = t.Client.SetWriteDeadline(time.Now().Add(lastWords))
	t.mu.Lock()
	if t.down.AtBoundary() {
		t.stopped = true
	}
	stopped := t.stopped
	t.mu.Unlock()
	if !stopped {
		grace := time.NewTimer(frameGrace)
		defer grace.Stop()
		select {
		case <-t.boundary:
		case <-grace.C:
		case <-t.over:
		}
	}
	t.Upstream.Close()
}

// carryUp copies from the client to the upstream. When the client has ended its
// direction it ends that of the upstream, and no other: an answer may still be
// on its way. What the upstream does not take any more is thrown away, so that
// the client's bytes do not reset its own connection.
func (t *tunnel) carryUp() {
	goodbye := sync.OnceFunc(func() { close(t.goodbye) })
	defer goodbye()
	var room room
	defer room.free()
	var werr error
	for {
		n, err := t.ClientReader.Read(room.next())
		t.passed(n)
		b := room.got(n)
		if werr == nil && n > 0 {
			t.upMu.Lock()
			t.up.Pass(b)
			closed := t.up.Closed()
			t.upMu.Unlock()
			_, werr = t.Upstream.Write(b)
			if closed {
				goodbye()
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			t.upMu.Lock()
			t.upEnded = true
			t.upMu.Unlock()
			goodbye()
			if closeWrite(t.Upstream) {
				t.awaitLast()
				return
			}
		} else {
			t.clientFailed(err)
		}
		// The client is gone, or its end cannot be passed on.
		t.Upstream.Close()
		return
	}
}

// awaitLast bounds the silence of the upstream once the client has ended its
// direction. A client that lives looks no different from then on than one that
// is dead, and an upstream that takes no notice of the end may be silent for
// ever. While the client is written to, the upstream is not silent.
func (t *tunnel) awaitLast() {
	t.upMu.Lock()
	closed := t.up.Closed()
	t.upMu.Unlock()
	bound := t.Stall
	if closed {
		bound = lastWords // nothing but a close frame is to come
	}
	if bound == 0 {
		return
	}
	ended := t.now()
	wait := time.NewTimer(bound)
	defer wait.Stop()
	for {
		select {
		case <-t.over:
			return
		case <-wait.C:
		}
		since := time.Duration(t.listening.Load())
		if since == 0 {
			wait.Reset(bound)
			continue
		}
		left := bound - (t.now() - max(since, ended))
		if left > 0 {
			wait.Reset(left)
			continue
		}
		if closed {
			t.givenUp.Store(true)
		} else {
			t.clientFailed(errDeserted)
		}
		t.Upstream.Close()
		return
	}
}

// now is the time since the start. It is never 0.
func (t *tunnel) now() time.Duration { return max(time.Since(t.start), 1) }

// clientFailed notes why the client's direction has failed.
func (t *tunnel) clientFailed(err error) {
	t.upMu.Lock()
	defer t.upMu.Unlock()
	t.upErr = err
}

func (t *tunnel) clientErr() error {
	t.upMu.Lock()
	defer t.upMu.Unlock()
	return t.upErr
}

// clientHasLeft reports that the client has said goodbye, or has ended its
// direction and was waited for: an end after that is no loss.
func (t *tunnel) clientHasLeft() (left, goodbye bool) {
	t.upMu.Lock()
	defer t.upMu.Unlock()
	return t.up.Closed() || t.upEnded && t.upErr == nil, t.up.Closed()
}

// parting ends the client's side without losing what is under way to it: our
// direction ends, and the client gets some time to say goodbye.
func (t *tunnel) parting() {
	closeWrite(t.Client)
	wait := time.NewTimer(lastWords)
	defer wait.Stop()
	select {
	case <-t.goodbye:
	case <-wait.C:
	}
}

// closeWrite ends one direction of a connection, if it can be ended alone.
func closeWrite(c any) bool {
	half, ok := c.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}
