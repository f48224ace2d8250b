package handlers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// lookPause is the time between two looks for the reason why a stream broke.
// ROCK stops a container before it evicts its record, so a look made at once
// still says running.
const lookPause = 100 * time.Millisecond

// endingBound bounds the wait for a call that may be ending a sandbox. ROCK
// answers a kill when the container has stopped, which may take as long as
// Docker gives it.
const endingBound = 15 * time.Second

// looks finds out why sandboxes died. However many streams of a sandbox die at
// once, there is one look for it.
type looks struct {
	g       *Gateway
	hurry   chan struct{} // closed when there is no time left to find out, which is at the end of a drain
	mu      sync.Mutex
	running map[string][]*look // by sandbox; one for each of its lives
}

// look is a search for what became of one life of a sandbox.
type look struct {
	route *routing.Route
	until time.Time        // when to give up; whoever joins moves it
	told  chan cause.Cause // what a call of the control plane made of it
	done  chan struct{}
	found cause.Cause // to be read once done is closed
	at    time.Time   // when it was found; the same
}

// why tells what became of a sandbox whose connection was lost: SandboxGone,
// SandboxExpired, SandboxPaused, SandboxStopped, or OK when it is still
// registered or nobody can say. It takes at most Options.LookBound, unless a
// call that may be ending the sandbox is under way, and as much again once it is
// known that the sandbox does not run: whoever used it loses nothing by the wait, and
// whether it is paused or gone decides what becomes of it. It never takes longer than
// a drain has time.
func (l *looks) why(ctx context.Context, route *routing.Route) cause.Cause {
	why, _ := l.whyAndWhen(ctx, route)
	return why
}

// whyAndWhen is why, and when that was found.
func (l *looks) whyAndWhen(ctx context.Context, route *routing.Route) (cause.Cause, time.Time) {
	k := l.join(route)
	select {
	case <-k.done:
		return k.found, k.at
	case <-l.hurry:
		select {
		case <-k.done: // what is known costs no time
			return k.found, k.at
		default:
			return cause.OK, time.Time{} // who waited on would be cut by the exit
		}
	case <-ctx.Done():
		return cause.ClientGone, time.Now()
	}
}

// join returns the look for a sandbox, which goes on for as long as one that
// began now.
func (l *looks) join(route *routing.Route) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.running[route.SandboxID] {
		if k.route.Lifecycle == route.Lifecycle {
			k.until = l.bound()
			return k
		}
	}
	k := &look{route: route, until: l.bound(), told: make(chan cause.Cause, 1), done: make(chan struct{})}
	if l.running == nil {
		l.running = map[string][]*look{}
	}
	l.running[route.SandboxID] = append(l.running[route.SandboxID], k)
	go func() {
		k.found = l.find(k)
		k.at = time.Now()
		close(k.done)
	}()
	return k
}

// settle ends the looks for a sandbox: it is known what became of it.
func (l *looks) settle(sandboxID string, why cause.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.running[sandboxID] {
		select {
		case k.told <- why:
		default:
		}
	}
}

// find looks until it knows, or has to give up.
func (l *looks) find(k *look) cause.Cause {
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	begun, known := time.Now(), cause.OK
	for {
		ctx, cancel := context.WithDeadline(l.g.ctx, l.deadline(k))
		why, final := l.once(ctx, k.route)
		cancel()
		if why != cause.OK {
			if known == cause.OK && !final {
				l.mu.Lock()
				k.until = l.bound()
				l.mu.Unlock()
			}
			known = why
		}
		select {
		case told := <-k.told:
			known, final = told, true
		default:
		}
		if final || l.giveUp(k, begun) {
			l.leave(k)
			return known
		}
		select {
		case told := <-k.told:
			l.leave(k)
			return told
		case <-l.g.ctx.Done():
			l.leave(k)
			return cause.OK
		case <-pause.C:
		}
	}
}

// bound is when a look that begins now gives up.
func (l *looks) bound() time.Time { return time.Now().Add(l.g.opt.LookBound) }

func (l *looks) deadline(k *look) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); k.until.Before(now) { // a call under way is waited for
		return now.Add(l.g.opt.LookBound)
	}
	return k.until
}

// giveUp ends a look whose time is over. Nobody joins it from then on.
func (l *looks) giveUp(k *look, begun time.Time) bool {
	now := time.Now()
	if now.Before(begun.Add(endingBound)) && l.g.opt.Deaths.pending(k.route.SandboxID) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(k.until) {
		return false
	}
	l.remove(k)
	return true
}

// leave lets nobody join any more.
func (l *looks) leave(k *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(k)
}

func (l *looks) remove(k *look) {
	id := k.route.SandboxID
	l.running[id] = slices.DeleteFunc(l.running[id], func(other *look) bool { return other == k })
	if len(l.running[id]) == 0 {
		delete(l.running, id)
	}
}

// once asks the registry what became of a sandbox. final reports that asking
// again would tell nothing else.
func (l *looks) once(ctx context.Context, route *routing.Route) (why cause.Cause, final bool) {
	now, err := l.g.opt.Routes.Fresh(ctx, route.SandboxID)
	switch why := causeOfLookup(ctx, now, err); {
	case err != nil && !errors.Is(err, routing.ErrGone):
		return cause.OK, false
	case why == cause.SandboxGone, why == cause.SandboxExpired, why == cause.SandboxFailed, why == cause.SandboxPaused:
		return why, true
	case why == cause.SandboxStopped:
		return why, false // it may become known which of them
	default:
		// With another lifecycle it lives again already.
		return cause.OK, now.Lifecycle != route.Lifecycle
	}
}
