package module

import (
	"sync/atomic"
	"time"
)

// changeQueue holds changes for a reader that may be slow. Whoever tells of them does
// not wait.
type changeQueue struct {
	waiting chan RouteChange
	lost    atomic.Int64
}

func newChangeQueue() *changeQueue { return &changeQueue{waiting: make(chan RouteChange, watched)} }

func (q *changeQueue) add(sandboxID string) {
	select {
	case q.waiting <- RouteChange{Time: time.Now().UTC(), SandboxID: &sandboxID}:
	default:
		q.lost.Add(1)
	}
}
