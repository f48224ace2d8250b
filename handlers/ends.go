package handlers

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/control"
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

// lookPause is the time between two looks for the reason why a stream broke.
// ROCK stops a container before it evicts its record, so a look made at once
// still says running.
const lookPause = 100 * time.Millisecond

// looks finds out why sandboxes died. However many streams of a sandbox die at
// once, there is one look for it.
type looks struct {
	g       *Gateway
	mu      sync.Mutex
	running map[string]*look
}

type look struct {
	done  chan struct{}
	found cause.Cause
}

// why tells what became of a sandbox whose connection was lost: SandboxGone,
// SandboxPaused, or OK when it is still registered or nobody can say.
func (l *looks) why(ctx context.Context, route *routing.Route) cause.Cause {
	l.mu.Lock()
	k := l.running[route.SandboxID]
	if k == nil {
		k = &look{done: make(chan struct{})}
		if l.running == nil {
			l.running = map[string]*look{}
		}
		l.running[route.SandboxID] = k
		go l.find(route, k)
	}
	l.mu.Unlock()
	select {
	case <-k.done:
		return k.found
	case <-ctx.Done():
		return cause.ClientGone
	}
}

func (l *looks) find(route *routing.Route, k *look) {
	ctx, cancel := context.WithTimeout(context.Background(), l.g.opt.LookBound)
	defer cancel()
	k.found = l.untilGone(ctx, route)
	l.mu.Lock()
	delete(l.running, route.SandboxID)
	l.mu.Unlock()
	close(k.done)
}

// now is one look: SandboxGone, SandboxPaused or OK.
func (l *looks) now(route *routing.Route) cause.Cause {
	ctx, cancel := context.WithTimeout(context.Background(), l.g.opt.LookBound)
	defer cancel()
	why, _ := l.once(ctx, route)
	return why
}

// untilGone looks until the record goes or ctx ends.
func (l *looks) untilGone(ctx context.Context, route *routing.Route) cause.Cause {
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	for {
		if why, final := l.once(ctx, route); final {
			return why
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return cause.OK
		}
	}
}

// once asks the registry what became of a sandbox. final reports that asking
// again would tell nothing else.
func (l *looks) once(ctx context.Context, route *routing.Route) (why cause.Cause, final bool) {
	now, err := l.g.opt.Routes.Fresh(ctx, route.SandboxID)
	switch {
	case errors.Is(err, routing.ErrGone):
		return l.goneOrPaused(route), true
	case err != nil:
		return cause.OK, false
	case now.State == routing.StatePaused:
		return cause.SandboxPaused, true
	case now.State == routing.StateDeleted:
		return cause.SandboxGone, true
	default:
		// With another lifecycle it lives again already.
		return cause.OK, now.Lifecycle != route.Lifecycle
	}
}

// goneOrPaused asks the admin role which of the two a sandbox without a record
// is: ROCK evicts the records of both. That it cannot be asked does not bring
// the record back.
func (l *looks) goneOrPaused(route *routing.Route) cause.Cause {
	cluster := l.g.clusters[route.Cluster]
	if cluster == nil || cluster.Admin == nil {
		return cause.SandboxGone
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.g.opt.LookBound)
	defer cancel()
	now, err := control.New(RoleClient{cluster.Admin, l.g.opt.Upstream}.Get).Lookup(ctx, route.SandboxID)
	if err == nil && now.State == routing.StatePaused {
		return cause.SandboxPaused
	}
	return cause.SandboxGone
}
