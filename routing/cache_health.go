package routing

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failuresInARow mean that the registry is failing, if it has also answered
	// nobody for the length of a lookup: else it may be one record, or one of
	// the shards.
	failuresInARow = 3
	// probePause is the time between two lookups that a failing registry gets
	// to show that it is back: four a second, whatever the load.
	probePause = 250 * time.Millisecond
	// retryPause is the time after a failed lookup in which a sandbox's last
	// known route is served without waiting for another one.
	retryPause = time.Second
)

// health notices that a registry answers nobody, so that callers need not find
// out one by one, each for the whole of LookupTimeout. An answer of any kind,
// a malformed record included, ends it.
type health struct {
	failures  atomic.Int32
	since     atomic.Int64 // before it, failures say nothing: something was answered
	until     atomic.Int64 // when a failure is too old to say anything
	nextProbe atomic.Int64

	mu   sync.Mutex
	bell chan struct{} // nil while nobody listens
}

// watch returns a channel that is closed when the registry is seen failing
// from now on.
func (h *health) watch() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bell == nil {
		h.bell = make(chan struct{})
	}
	return h.bell
}

func (h *health) ring() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bell != nil {
		close(h.bell)
		h.bell = nil
	}
}

// Cover is how long after its registry's last answer a route is used at most.
func (c *Cache) Cover() time.Duration { return c.opt.TTL + max(c.opt.Stale, 0) }

// errRefused is what a caller gets for whom a failing registry is not asked.
var errRefused = fmt.Errorf("%w: its last lookups failed", ErrUnavailable)

func (h *health) failing(now int64) bool {
	return h.failures.Load() >= failuresInARow && now >= h.since.Load() && now < h.until.Load()
}

// refuse returns an error when the registry is failing and it is not yet time
// for another probe. A nil error is a permission to ask.
func (h *health) refuse(now int64) error {
	if !h.failing(now) {
		return nil
	}
	next := h.nextProbe.Load()
	if now < next || !h.nextProbe.CompareAndSwap(next, now+int64(probePause)) {
		return errRefused
	}
	return nil
}

// report takes note of how a lookup ended, which was given timeout.
func (h *health) report(now int64, err error, timeout time.Duration) {
	if err == nil || errors.Is(err, ErrGone) || errors.Is(err, ErrMalformed) || errors.Is(err, errPartial) {
		h.failures.Store(0)
		h.since.Store(now + int64(timeout))
		return
	}
	// By then there is another report: of a lookup that begins after the pause, and
	// when it is its turn to be a probe.
	h.until.Store(now + int64(retryPause+probePause+timeout))
	if h.failures.Load() < failuresInARow {
		if h.failures.Add(1) == failuresInARow {
			h.nextProbe.Store(now + int64(probePause))
		}
	}
	if h.failures.Load() < failuresInARow {
		return
	}
	// They begin to mean something at since, unless an answer comes before.
	at := max(now, h.since.Load())
	time.AfterFunc(time.Duration(at-now), func() {
		if h.failing(at) {
			h.ring()
		}
	})
}
