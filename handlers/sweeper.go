package handlers

import (
	"context"
	"sync"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// sweepers is how many sandboxes are looked after at a time. After a lost watch
// there may be thousands, and the registry has just come back.
const sweepers = 8

// sweeper looks after the streams of sandboxes whose record may have changed: a
// sandbox that was killed or paused from elsewhere may leave its connections
// open and silent.
type sweeper struct {
	g *Gateway

	mu      sync.Mutex
	dirty   map[string]*routing.Route
	workers int
}

// changed is told of a record that may have changed, of all for the id "".
func (s *sweeper) changed(sandboxID string) {
	routes := s.g.streams.of(sandboxID)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, route := range routes {
		s.dirty[route.SandboxID] = route
	}
	for s.workers < min(sweepers, len(s.dirty)) {
		s.workers++
		go s.work()
	}
}

// work looks at one sandbox after the other until none is left.
func (s *sweeper) work() {
	for route := s.next(); route != nil; route = s.next() {
		ctx, cancel := context.WithTimeout(s.g.ctx, s.g.opt.LookBound)
		why, final := s.g.looks.once(ctx, route)
		cancel()
		if !final && why != cause.OK {
			why = s.g.looks.why(s.g.ctx, route) // it does not run; find out why
		}
		if why != cause.OK && s.g.ctx.Err() == nil {
			s.g.streams.end(route.SandboxID, why)
		}
	}
}

func (s *sweeper) next() *routing.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.g.ctx.Err() == nil {
		for id, route := range s.dirty {
			delete(s.dirty, id)
			return route
		}
	}
	s.workers--
	return nil
}
