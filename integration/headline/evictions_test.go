package headline

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

// evictions are the registry's records, and beside them how long each outlived its sandbox's container. ROCK evicts a record when
// it gets to it.
type evictions struct {
	rock.Records

	mu    sync.Mutex
	dying map[string]chan time.Time // by sandbox; gets the time of the eviction
}

// expect is told that a sandbox is about to die; ended is closed when its container has. took waits for the eviction and tells how
// long after the container's end it was.
func (e *evictions) expect(id string, ended <-chan struct{}) (took func() time.Duration) {
	evictedAt := make(chan time.Time, 1)
	endedAt := make(chan time.Time, 1)
	go func() {
		<-ended
		endedAt <- time.Now()
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dying[id] = evictedAt
	return func() time.Duration { return (<-evictedAt).Sub(<-endedAt) }
}

// Del implements rock.Records.
func (e *evictions) Del(ctx context.Context, keys ...string) error {
	err := e.Records.Del(ctx, keys...)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		id, ok := strings.CutPrefix(key, "alive:")
		if evictedAt := e.dying[id]; ok && evictedAt != nil {
			evictedAt <- time.Now()
			delete(e.dying, id)
		}
	}
	return err
}
