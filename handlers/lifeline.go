package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream/h1"
)

// lifeline is the context of a call that is sent on. It ends with the client's
// request, and when the gateway gives the call up, whose reason is its cause then.
//
// It is what [context.WithCancelCause] makes, made late. To hear of the client's
// end, to be heard, and to be bounded in time takes ten allocations and two timers,
// and most calls are over before there is anything to hear. So that is done when
// somebody asks for it, and for every call that has lasted for a moment, see calls.
type lifeline struct {
	parent context.Context // of the client's request
	begun  time.Time
	trail  *Trail // or nil

	mu       sync.Mutex
	real     context.Context // nil while nobody has needed it
	cancelIt context.CancelCauseFunc
	deaf     func() bool // ends that the real one is listened to
	over     bool        // the call is, so nobody hears of an end any more
	lasting  bool        // the call is, so its bounds have timers
	bounds   [2]bound
	tied     h1.Cutter
}

// bound is how long a call may last, or a part of it.
type bound struct {
	after time.Duration // since the lifeline began, 0 for none
	why   ended
	timer *time.Timer
}

// The bounds of a call.
const (
	ofClient = iota // its deadline
	ofBody          // until a small request body is there
)

// begin makes l the context of a call that is made for a client's request.
func (l *lifeline) begin(parent context.Context) { l.parent, l.begun = parent, time.Now() }

// Deadline implements [context.Context].
func (l *lifeline) Deadline() (time.Time, bool) { return l.parent.Deadline() }

// Done implements [context.Context].
func (l *lifeline) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made().Done()
}

// Err implements [context.Context].
func (l *lifeline) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err()
}

func (l *lifeline) err() error {
	if l.real == nil && !l.over && l.parent.Err() == nil {
		return nil
	}
	return l.made().Err()
}

// Value implements [context.Context].
func (l *lifeline) Value(key any) any {
	if v := l.trail.value(key); v != nil {
		return v
	}
	l.mu.Lock()
	of := l.real
	l.mu.Unlock()
	if of == nil {
		of = l.parent
	}
	return of.Value(key)
}

// made is the real context. The caller holds mu.
func (l *lifeline) made() context.Context {
	if l.real == nil {
		l.real, l.cancelIt = context.WithCancelCause(l.parent)
		if l.over {
			l.cancelIt(nil)
		} else {
			l.listen(l.real)
		}
	}
	return l.real
}

// listen cuts what is tied when a context ends. The caller holds mu.
func (l *lifeline) listen(to context.Context) {
	if l.deaf != nil {
		l.deaf()
	}
	l.deaf = context.AfterFunc(to, l.cut)
}

// cut ends the wait of what is tied.
func (l *lifeline) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tied != nil {
		l.tied.Cut()
		l.tied = nil
	}
}

// Tie implements [h1.Lifeline].
func (l *lifeline) Tie(c h1.Cutter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err() != nil {
		return false
	}
	l.tied = c
	return true
}

// Untie implements [h1.Lifeline].
func (l *lifeline) Untie() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	tied := l.tied != nil
	l.tied = nil
	return tied
}

// cancel gives the call up, for a reason. Nil: nobody wants it any more.
func (l *lifeline) cancel(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp(why)
}

// giveUp is cancel for who holds mu.
func (l *lifeline) giveUp(why error) {
	l.made()
	l.cancelIt(why)
}

// end must be called when the call is over.
func (l *lifeline) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.tied = true, nil
	for i := range l.bounds {
		l.bounds[i].stop()
	}
	if l.deaf != nil {
		l.deaf()
	}
	if l.cancelIt != nil {
		l.cancelIt(nil)
	}
}

// within gives the call up, for a reason, when so much time has passed since the
// lifeline began, unless the call is over by then or the bound is lifted.
func (l *lifeline) within(which int, d time.Duration, why cause.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.bounds[which]
	b.after, b.why = d, ended{why}
	if l.lasting {
		b.start(l)
	}
}

// lift ends a bound.
func (l *lifeline) lift(which int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bounds[which].stop()
}

// last is told of a call that takes longer than most.
func (l *lifeline) last() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.lasting {
		return
	}
	l.lasting = true
	if l.real == nil {
		l.listen(l.parent) // to hear of the client's end takes no context of our own
	}
	for i := range l.bounds {
		l.bounds[i].start(l)
	}
}

// start and stop are called with the lifeline's mu held.
func (b *bound) start(l *lifeline) {
	if b.after <= 0 {
		return
	}
	b.timer = time.AfterFunc(b.after-time.Since(l.begun), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if b.after > 0 { // it was not lifted at this very moment
			l.giveUp(b.why)
		}
	})
}

func (b *bound) stop() {
	b.after = 0
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

var _ h1.Lifeline = (*lifeline)(nil)
