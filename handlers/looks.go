package handlers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

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
	ending  map[string]*look // calls through this gateway that may end a sandbox
}

// look is a search for what became of a sandbox, or a call that may end it.
type look struct {
	done  chan struct{}
	found cause.Cause // to be read once done is closed
}

// why tells what became of a sandbox whose connection was lost: SandboxGone,
// SandboxExpired, SandboxPaused, or OK when it is still registered or nobody
// can say.
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
	if k.found == cause.OK {
		k.found = l.whatIsUnderWay(route)
	}
	l.mu.Lock()
	delete(l.running, route.SandboxID)
	l.mu.Unlock()
	close(k.done)
}

// endingBound bounds the wait for a call that may be ending a sandbox. ROCK
// answers a kill when the container has stopped, which may take as long as
// Docker gives it.
const endingBound = 15 * time.Second

// begin registers a call that may end a sandbox. The function that it returns
// must be called when it is over.
func (l *looks) begin(sandboxID string) (over func()) {
	k := &look{done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending == nil {
		l.ending = map[string]*look{}
	}
	l.ending[sandboxID] = k
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ending[sandboxID] == k { // and not a later call
			delete(l.ending, sandboxID)
		}
		close(k.done)
	}
}

// settle notes what a call that begin has registered made of its sandbox.
func (l *looks) settle(sandboxID string, why cause.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.ending[sandboxID]; k != nil {
		k.found = why
	}
}

// whatIsUnderWay waits for the call that may be ending a sandbox, if there is
// one: its record may stay for as long as that takes.
func (l *looks) whatIsUnderWay(route *routing.Route) cause.Cause {
	l.mu.Lock()
	k := l.ending[route.SandboxID]
	l.mu.Unlock()
	if k == nil {
		return cause.OK
	}
	bound := time.NewTimer(endingBound)
	defer bound.Stop()
	select {
	case <-k.done:
		return k.found
	case <-bound.C:
		return cause.OK
	}
}

// now is one look, see why.
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
		return cause.SandboxGone, true
	case err != nil:
		return cause.OK, false
	case now.State == routing.StatePaused:
		return cause.SandboxPaused, true
	case now.State == routing.StateExpired:
		return cause.SandboxExpired, true
	case now.State == routing.StateDeleted:
		return cause.SandboxGone, true
	default:
		// With another lifecycle it lives again already.
		return cause.OK, now.Lifecycle != route.Lifecycle
	}
}
