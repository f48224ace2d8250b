package handlers

import (
	"context"
	"sync"
)

// flights are pieces of work that everybody who needs one waits for together. A flight
// is a task of the gateway: it goes on when those who wait for it have left.
type flights struct {
	mu       sync.Mutex
	underWay map[string]*flight // by what they are for
}

type flight struct {
	done chan struct{}
	err  error // to be read once done is closed
}

// pending reports a flight under way.
func (f *flights) pending(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.underWay[key] != nil
}

// join waits for the flight, which it begins as one of tasks if none is under way. begun
// reports that it did. An error of ctx leaves the flight to go on.
func (f *flights) join(ctx context.Context, tasks *sync.WaitGroup, key string, do func() error) (begun bool, err error) {
	f.mu.Lock()
	at := f.underWay[key]
	if at == nil {
		begun = true
		at = &flight{done: make(chan struct{})}
		if f.underWay == nil {
			f.underWay = map[string]*flight{}
		}
		f.underWay[key] = at
		tasks.Go(func() {
			at.err = do()
			f.mu.Lock()
			delete(f.underWay, key)
			f.mu.Unlock()
			close(at.done)
		})
	}
	f.mu.Unlock()
	select {
	case <-at.done:
		return begun, at.err
	case <-ctx.Done():
		return begun, ctx.Err()
	}
}
