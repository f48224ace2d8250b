package h1

import (
	"context"
	"time"
)

// Lifeline is a context that what waits can be tied to, at no cost: package context
// takes some ten allocations to make one that can be ended and to tell one listener
// of its end. [Client.RoundTrip] knows it.
type Lifeline interface {
	context.Context
	// Tie has Cut called, once, when the context ends. It reports false, and
	// nothing is tied, when that has happened already. One is tied at a time.
	Tie(Cutter) bool
	// Untie ends that: once it has returned, Cut does not run and will not. It
	// reports false when Cut was called.
	Untie() bool
}

// Cutter is what waits. Cut ends the wait, from any goroutine, and calls nothing of
// the Lifeline.
type Cutter interface{ Cut() }

// tie lets the end of the request's context close the connection. It reports false when
// that has come already.
func (x *exchange) tie() bool {
	if l, ok := x.ctx.(Lifeline); ok {
		if !l.Tie(x.conn) {
			return false
		}
		x.line = l
	} else if x.ctx.Done() != nil {
		x.stop = context.AfterFunc(x.ctx, x.conn.Cut)
	}
	return true
}

// untie ends that. It reports false when the connection is closed, or being closed.
func (x *exchange) untie() bool {
	switch {
	case x.line != nil:
		return x.line.Untie()
	case x.stop != nil:
		return x.stop()
	default:
		return true
	}
}

// WithTimeout is [context.WithTimeout] for who dials. A [Lifeline] is no parent of what
// it makes: it would have to become what it saves, for as long as the answer lasts.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	l, ok := ctx.(Lifeline)
	if !ok {
		return context.WithTimeout(ctx, d)
	}
	alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	if !l.Tie(cutFunc(cancel)) {
		cancel()
	}
	return alone, func() {
		l.Untie()
		cancel()
	}
}

// cutFunc is a [Cutter].
type cutFunc func()

// Cut implements [Cutter].
func (f cutFunc) Cut() { f() }
