package remember

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

// places bound how many questions are put at a time, and how many wait.
type places struct {
	free    chan struct{}
	most    int64
	waiting atomic.Int64
}

var errQueue = fmt.Errorf("%w: no earlier question was answered in time", auth.ErrUnavailable)

// take waits for a place, at most for as long as patience.
func (p *places) take(ctx context.Context, patience time.Duration) error {
	select {
	case p.free <- struct{}{}:
		return nil
	default:
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > p.most {
		return errBusy
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case p.free <- struct{}{}:
		return nil
	case <-timer.C:
		return errQueue
	case <-ctx.Done():
		return errClosed
	}
}

func (p *places) leave() { <-p.free }
