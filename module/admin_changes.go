package module

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"
)

// RouteChange is a line of the answer to GET /e2b/watch.
type RouteChange struct {
	Time time.Time `json:"time"`
	// SandboxID is whose record may have changed, "" for any. Nil in the first line.
	SandboxID *string `json:"sandbox_id,omitempty"`
	// Watching is true in the first line: changes are told from now on.
	Watching bool `json:"watching,omitempty"`
	// Lost is how many changes were left out before this one, because whoever reads was
	// too slow for them.
	Lost int `json:"lost,omitempty"`
}

// watched is how many changes wait for a slow reader.
const watched = 1024

// watchPatience is how long a reader may take nothing. One that sleeps would keep the
// parts of its config for ever.
const watchPatience = 30 * time.Second

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

// tell writes changes as they come, until ctx ends or nobody reads any more.
func (q *changeQueue) tell(ctx context.Context, w http.ResponseWriter) {
	control := http.NewResponseController(w)
	write := func(change RouteChange) bool {
		_ = control.SetWriteDeadline(time.Now().Add(watchPatience))
		err := json.NewEncoder(w).Encode(change)
		if err == nil {
			err = control.Flush()
		}
		_ = control.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end a stream with nothing to say
		return err == nil
	}
	for change := (RouteChange{Time: time.Now().UTC(), Watching: true}); write(change); {
		select {
		case change = <-q.waiting:
			change.Lost = int(q.lost.Swap(0))
		case <-ctx.Done():
			return
		}
	}
}
