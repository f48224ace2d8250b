package handlers

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// ended is why the gateway itself gave up a call. It is the cause of the call's
// context.
type ended struct{ cause cause.Cause }

func (e ended) Error() string { return "ended by the gateway: " + e.cause.String() }

// endedBy is why the gateway gave up the call whose context is ctx, and
// cause.OK if it did not.
func endedBy(ctx context.Context) cause.Cause {
	var e ended
	if errors.As(context.Cause(ctx), &e) {
		return e.cause
	}
	return cause.OK
}

// deadlineGrace is what the other side gets beyond the client's deadline to say
// itself that it has passed.
const deadlineGrace = 500 * time.Millisecond

// clientDeadline reads Connect-Timeout-Ms: a number of at most ten digits
// (Connect protocol, "Timeouts"). Anything else is envd's to judge. Python
// 2.34.0 does not watch its own deadline: without the gateway it would wait for
// a silent sandbox for ever.
func clientDeadline(h http.Header) (time.Duration, bool) {
	values := h["Connect-Timeout-Ms"]
	if len(values) != 1 || len(values[0]) == 0 || len(values[0]) > 10 {
		return 0, false
	}
	ms := int64(0)
	for _, c := range []byte(values[0]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = ms*10 + int64(c-'0')
	}
	return time.Duration(ms) * time.Millisecond, true
}

// streams are the streams that run, by sandbox, so that they can be ended when
// the sandbox is.
type streams struct {
	mu   sync.Mutex
	live map[string]map[*running]struct{}
}

// running is one stream.
type running struct {
	route  *routing.Route
	cancel context.CancelCauseFunc
}

// add registers a stream. The function that it returns takes it out.
func (s *streams) add(r *running) (remove func()) {
	id := r.route.SandboxID
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[string]map[*running]struct{}{}
	}
	if s.live[id] == nil {
		s.live[id] = map[*running]struct{}{}
	}
	s.live[id][r] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.live[id], r)
		if len(s.live[id]) == 0 {
			delete(s.live, id)
		}
	}
}

// end ends the streams of a sandbox.
func (s *streams) end(sandboxID string, why cause.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.live[sandboxID] {
		r.cancel(ended{why})
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

// changed looks after the streams of a sandbox whose record may have changed,
// or of all for the id "": a sandbox that was killed or paused from elsewhere
// may leave its connections open and silent.
func (g *Gateway) changed(sandboxID string) {
	if routes := g.streams.of(sandboxID); len(routes) > 0 {
		// One after the other: after a lost watch there may be thousands, and
		// the registry has just come back.
		go func() {
			for _, route := range routes {
				if why := g.looks.now(route); why != cause.OK {
					g.streams.end(route.SandboxID, why)
				}
			}
		}()
	}
}
