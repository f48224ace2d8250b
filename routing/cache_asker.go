package routing

import (
	"fmt"
	"sync/atomic"
)

// Asker is who gives rise to a lookup.
type Asker uint8

const (
	// Known has shown a credential, or needs none.
	Known Asker = iota
	// Stranger has shown nothing that could be checked yet. Strangers make up
	// as many ids as they like, so they have places of their own, and a queue
	// with an end: nobody else waits for them.
	Stranger

	askers
)

const (
	// strangersShare is how many places there are for each of the strangers'.
	strangersShare = 8
	// strangersQueue is how many strangers may wait. More are turned away.
	strangersQueue = 256
)

var errBusy = fmt.Errorf("%w: too many who are not known ask at the same time", ErrUnavailable)

// places are for lookups that run.
type places struct {
	free    chan struct{} // one element for each that runs
	most    int64         // may wait, 0 for as many as come
	waiting atomic.Int64
}

// queue lines up, unless the queue has its end before that.
func (p *places) queue() bool {
	if n := p.waiting.Add(1); p.most > 0 && n > p.most {
		p.waiting.Add(-1)
		return false
	}
	return true
}

// crowded reports a queue that nobody should join who can do without.
func (p *places) crowded() bool { return p.waiting.Load() >= int64(renewalsQueue*cap(p.free)) }
