package upstream

import "context"

// Lifeline is a context that what waits can be tied to, at no cost: package
// context takes some ten allocations to make one that can be ended and to tell one
// listener of its end.
type Lifeline interface {
	context.Context
	// Tie has Cut called, once, when the context ends. It reports false, and
	// nothing is tied, when that has happened already. One is tied at a time.
	Tie(Cutter) bool
	// Untie ends that: once it has returned, Cut does not run and will not. It
	// reports false when Cut was called.
	Untie() bool
}

// Cutter is what waits. Cut ends the wait, from any goroutine, and calls nothing
// of the Lifeline.
type Cutter interface{ Cut() }
