package handlers

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
)

// watchdog gives up a call that does not move any more: its sandbox sends
// nothing although it should, or its client takes nothing. A client that reads
// slowly moves; it is held back and never dropped.
//
// It has one timer for all it watches, and what it is told costs a clock
// reading and no memory.
type watchdog struct {
	http.ResponseWriter // the client
	control             http.ResponseController
	call                canceller
	// idle bounds the silence of the sandbox, 0 for no bound. alive bounds it
	// from the first keepalive message on.
	idle, alive time.Duration
	// stall bounds the writing of patience bytes to the client, 0 for no bound.
	stall time.Duration
	// body is what the client sends, nil when all of it was read before: it is
	// the sandbox's turn when that is over.
	body *streamedBody

	start   time.Time
	heard   atomic.Int64 // when the sandbox was last heard, since start
	writing atomic.Int64 // when the last part of the write that is going on begins at the latest, since start; 0 between writes
	proven  atomic.Bool  // a keepalive message was seen
	stalled atomic.Bool

	mu       sync.Mutex  // held while it acts, so that it does not once the call is over
	timer    *time.Timer // nil before it watches a call that lasts
	watching bool
	lasting  bool // the call is; before that nothing can exceed its bound
	ended    bool

	moved atomic.Bool // bytes went by, in either direction, see activity
}

// watch starts watching, if it does not do so already.
func (d *watchdog) watch() {
	if d.idle <= 0 && d.alive <= 0 && d.stall <= 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watching {
		return
	}
	d.watching, d.start = true, time.Now()
	d.setTimer()
}

// last is told of a call that takes longer than most.
func (d *watchdog) last() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lasting = true
	d.setTimer()
}

// setTimer is called with mu held.
func (d *watchdog) setTimer() {
	if d.watching && d.lasting && !d.ended && d.timer == nil {
		d.timer = time.AfterFunc(d.next(d.now()), d.look)
	}
}

// waiting reports that it is the sandbox's turn: while the client is still
// sending, silence is right.
func (d *watchdog) waiting() bool { return d.body == nil || d.body.whole.Load() }

// stop must be called when the call is over.
func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// now is never 0, which says that no write is going on.
func (d *watchdog) now() time.Duration { return max(time.Since(d.start), 1) }

// look gives up what has exceeded its bound and comes back for the rest.
func (d *watchdog) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	now := d.now()
	if limit := d.silence(); limit > 0 {
		if !d.waiting() || d.writing.Load() != 0 {
			d.heard.Store(int64(now)) // nobody listens, or nobody is to speak
		}
		if now-time.Duration(d.heard.Load()) >= limit {
			d.call.cancel(ended{cause.UpstreamIdle})
			return
		}
	}
	if began := time.Duration(d.writing.Load()); d.stall > 0 && began > 0 && now-began >= d.stall {
		d.stalled.Store(true)
		// Ends the write. The client learns nothing: it does not read.
		_ = d.control.SetWriteDeadline(time.Unix(1, 0))
		d.call.cancel(ended{cause.ClientStalled})
		return
	}
	d.timer.Reset(d.next(now))
}

// silence is the bound of the sandbox's silence at the moment, 0 for none.
func (d *watchdog) silence() time.Duration {
	if d.idle > 0 || !d.proven.Load() {
		return d.idle
	}
	return d.alive
}

// next is how long nothing can exceed its bound.
func (d *watchdog) next(now time.Duration) time.Duration {
	next := time.Duration(math.MaxInt64)
	if limit := d.silence(); limit > 0 {
		next = time.Duration(d.heard.Load()) + limit - now
	} else if d.alive > 0 {
		next = d.alive // a keepalive message may come meanwhile
	}
	if d.stall > 0 {
		at := d.stall
		if began := time.Duration(d.writing.Load()); began > 0 {
			at += began - now
		}
		next = min(next, at)
	}
	return max(next, time.Millisecond)
}

// keepalive is told of a keepalive message: from now on the sandbox must go on
// sending them.
func (d *watchdog) keepalive() { d.proven.Store(true) }

// The client must take patience bytes within the stall bound. A write is of more: on a
// stream of short messages it is a fifth of all there is to do.
const (
	patience = 32 << 10
	maxWrite = 64 << 10
)

// Write writes to the client.
func (d *watchdog) Write(p []byte) (n int, err error) {
	for len(p) > maxWrite && err == nil {
		var some int
		some, err = d.write(p[:maxWrite])
		n += some
		p = p[maxWrite:]
	}
	if err == nil {
		var some int
		some, err = d.write(p)
		n += some
	}
	return n, err
}

func (d *watchdog) write(p []byte) (int, error) {
	// It begins when the last part of it does.
	d.begin(time.Duration((len(p)-1)/patience) * d.stall)
	n, err := d.ResponseWriter.Write(p)
	d.done()
	return n, err
}

// FlushError is what [http.ResponseController] calls.
func (d *watchdog) FlushError() error {
	d.begin(0)
	err := d.control.Flush()
	d.done()
	return err
}

func (d *watchdog) begin(in time.Duration) { d.writing.Store(int64(d.now() + in)) }

// done also begins the sandbox's silence: while the client was written to
// nobody listened.
func (d *watchdog) done() {
	d.heard.Store(int64(d.now()))
	d.writing.Store(0)
}

// Unwrap lets [http.ResponseController] find everything else.
func (d *watchdog) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// listen tells the watchdog of what the sandbox sends.
func (d *watchdog) listen(body io.ReadCloser) heardBody {
	ahead, _ := body.(aheadBody)
	return heardBody{body, ahead, d}
}

// aheadBody is a body that knows how much of it has been read ahead.
type aheadBody interface {
	Buffered() int
	envelope.Ahead
}

type heardBody struct {
	io.ReadCloser
	ahead aheadBody // it, or nil
	dog   *watchdog
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil || b.ahead == nil || b.ahead.Buffered() < envelope.Enough {
		// Silence may begin. In a batch it does not, and clocks cost.
		b.dog.heard.Store(int64(b.dog.now()))
	}
	b.dog.pass(n)
	return n, err
}

// Ready implements [envelope.Ahead].
func (b *heardBody) Ready() int {
	if b.ahead == nil {
		return 0
	}
	return b.ahead.Ready()
}

// Buffered is how many bytes of the answer are here, and it looks for no more.
func (b *heardBody) Buffered() int {
	if b.ahead == nil {
		return 0
	}
	return b.ahead.Buffered()
}

// pass is told of n bytes that went by.
func (d *watchdog) pass(n int) {
	if n > 0 && !d.moved.Load() { // written once, however many there are
		d.moved.Store(true)
	}
}

// defaultKeepalive is how often envd sends a keepalive message on a stream
// whose client does not say. ROCK sends them more often.
const defaultKeepalive = 90 * time.Second

// keepaliveInterval is how often the client has asked for a keepalive message.
// The SDKs ask for one every 50 s.
func keepaliveInterval(h http.Header) time.Duration {
	asked := h.Get("Keepalive-Ping-Interval")
	if asked == "" {
		return defaultKeepalive // without an error that nobody reads
	}
	seconds, err := strconv.ParseFloat(asked, 64)
	if err != nil || !(seconds > 0 && seconds <= 3600) {
		return defaultKeepalive
	}
	return time.Duration(seconds * float64(time.Second))
}

// idleLimits are the bounds of the silence of a stream that was asked for a
// keepalive message every interval. configured is [Options.UpstreamIdle].
//
// The operator's own bound holds for every stream, but never cuts one that
// misses a single keepalive message. Without it a stream is held to what it has
// shown: one that has sent a keepalive message may miss two. A message may come
// half an interval late.
func idleLimits(configured, interval time.Duration) (idle, alive time.Duration) {
	switch {
	case configured < 0:
		return 0, 0
	case configured > 0:
		return max(configured, 2*interval+interval/2), 0
	default:
		return 0, 3*interval + interval/2
	}
}
