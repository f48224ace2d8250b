package handlers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// streams are the streams that run, by sandbox, so that they can be ended when
// the sandbox is, or when the gateway goes away.
type streams struct {
	mu   sync.Mutex
	live map[string]map[*running]struct{}
	// drained: all were ended and none may begin.
	drained bool
}

// add registers a stream, until remove is called.
func (s *streams) add(r *running) {
	id := r.route.SandboxID
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		r.cancel.cancel(ended{cause.Drain})
	}
	r.seen.id = lastStream.Add(1)
	if s.live == nil {
		s.live = map[string]map[*running]struct{}{}
	}
	if s.live[id] == nil {
		s.live[id] = map[*running]struct{}{}
	}
	s.live[id][r] = struct{}{}
}

// remove takes a stream out.
func (s *streams) remove(r *running) {
	id := r.route.SandboxID
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live[id], r)
	if len(s.live[id]) == 0 {
		delete(s.live, id)
	}
}

// end ends the streams of a sandbox of which it has just become known that it does not
// run any more.
func (s *streams) end(sandboxID string, why cause.Cause) {
	known := died{ended{why}, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.live[sandboxID] {
		r.cancel.cancel(known)
	}
}

// all returns every stream that runs, in no order.
func (s *streams) all() (all []*running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, live := range s.live {
		all = slices.AppendSeq(all, maps.Keys(live))
	}
	return all
}

// drain ends every stream that runs, and any that is added from now on.
func (s *streams) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = true
	for _, live := range s.live {
		for r := range live {
			r.cancel.cancel(ended{cause.Drain})
		}
	}
}

// of returns the route of a sandbox that has streams, of each such sandbox for
// the id "".
func (s *streams) of(sandboxID string) (routes []*routing.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := func(live map[*running]struct{}) {
		for r := range live {
			routes = append(routes, r.route)
			return
		}
	}
	if sandboxID != "" {
		one(s.live[sandboxID])
		return routes
	}
	for _, live := range s.live {
		one(live)
	}
	return routes
}
