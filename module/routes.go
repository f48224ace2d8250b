package module

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// routes is the registries of all clusters with the cache in front of them and
// the goroutine that listens for changes. It holds what its registries use, so
// that it can outlive the config that made it.
type routes struct {
	cache      *routing.Cache
	union      *routing.Union
	registries []routing.Registry
	answered   []atomic.Pointer[time.Time] // see [clusterHealth]
	leave      func()                      // the ledger
	uses       leases

	ctx     context.Context // ends with Destruct
	cancel  context.CancelFunc
	once    sync.Once
	watcher sync.WaitGroup
}

func newRoutes(members []routing.Member, options routing.CacheOptions, uses leases) *routes {
	r := &routes{uses: uses}
	for _, m := range members {
		r.registries = append(r.registries, m.Registry)
	}
	r.answered = make([]atomic.Pointer[time.Time], len(members))
	r.union = routing.NewUnion(members)
	r.cache = routing.NewCache(r.union, options)
	r.leave = lookups.enter(r.cache)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// start begins to listen for changes, once.
func (r *routes) start() {
	r.once.Do(func() { r.watcher.Go(func() { r.cache.Run(r.ctx) }) })
}

// failing is which registries answer nobody at present, by cluster. Of a single one the
// cache knows, of several their union.
func (r *routes) failing() map[string]bool {
	failing := r.union.Failing()
	if len(failing) == 1 {
		for cluster := range failing {
			failing[cluster] = r.cache.Stats().Failing
		}
	}
	return failing
}

// Destruct ends the goroutine and closes the registries. Nobody uses them any
// more: every request holds a reference for as long as it runs.
func (r *routes) Destruct() error {
	r.cancel()
	r.cache.Close()
	r.once.Do(func() {}) // too late to start
	r.watcher.Wait()
	r.leave()
	closeAll(r.registries)
	r.uses.release()
	return nil
}

func closeAll(registries []routing.Registry) {
	for _, registry := range registries {
		if c, ok := registry.(io.Closer); ok {
			_ = c.Close()
		}
	}
}
