package handlers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// ROCK finds out that a sandbox has started only when it is asked for its status, or
// every 30 s (contract of ROCK, 3.4). So whoever waits must ask.

const (
	// statusPause is the time between two questions for a sandbox's status. Those
	// that wait for a start that has failed hear of it within a second.
	statusPause = 900 * time.Millisecond
	// statusPauseMost is the same for a ROCK that does not answer.
	statusPauseMost = 10 * time.Second
	// recordPause is how long a record is not looked at when nobody says that it has
	// changed.
	recordPause = time.Second
)

// fewWaiting is how many calls wait for one sandbox at least before it is too many of
// them. More than a quarter of all places are not for one: whoever has a sandbox that
// never starts, or visits it, would keep everybody else from waiting.
const fewWaiting = 256

// readiness is who waits for sandboxes that start.
type readiness struct {
	g *Gateway

	mu      sync.Mutex
	probes  map[string]*probe // by sandbox
	waiting int               // calls
	drained bool
	asked   map[string]time.Time // by sandbox: when its status was last asked for
	cleaned int                  // how many were left when the old ones were last taken out
}

// probe asks for one sandbox, for as long as somebody waits for it.
type probe struct {
	ready     *readiness
	sandboxID string
	cluster   *routing.Cluster
	waiting   int // under readiness.mu
	cancel    context.CancelFunc
	changed   chan struct{}    // the record may have changed; holds one
	told      chan cause.Cause // what a call made of the sandbox; holds one
	done      chan struct{}    // closed when found is set
	found     startup
	last      startup // how it stood at the last look; under readiness.mu
}

// join adds a waiting call to the probe of a sandbox. Without a probe the cause is
// why nobody waits.
func (r *readiness) join(route *routing.Route) (*probe, cause.Cause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cluster := r.g.clusters[route.Cluster]
	switch {
	case r.drained:
		return nil, cause.Drain
	case r.waiting >= r.g.opt.ReadyWaiting:
		return nil, cause.SandboxStarting
	case cluster == nil:
		return nil, cause.Internal
	}
	p := r.probes[route.SandboxID]
	if most := r.g.opt.ReadyWaiting; p != nil && p.waiting >= max(most/4, min(most, fewWaiting)) {
		return nil, cause.SandboxStarting
	}
	if p == nil {
		p = &probe{
			ready: r, sandboxID: route.SandboxID, cluster: cluster,
			changed: make(chan struct{}, 1), told: make(chan cause.Cause, 1), done: make(chan struct{}),
			last: startup{why: cause.SandboxStarting},
		}
		if r.probes == nil {
			r.probes = map[string]*probe{}
		}
		r.probes[p.sandboxID] = p
		var ctx context.Context
		ctx, p.cancel = context.WithCancel(r.g.ctx)
		r.g.tasks.Go(func() { p.run(ctx) })
	}
	p.waiting++
	r.waiting++
	return p, cause.OK
}

// leave takes a waiting call out. The last one ends the probe.
func (r *readiness) leave(p *probe) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
	if p.waiting--; p.waiting == 0 {
		r.remove(p)
		p.cancel()
	}
}

// remove lets nobody join any more.
func (r *readiness) remove(p *probe) {
	if r.probes[p.sandboxID] == p {
		delete(r.probes, p.sandboxID)
	}
}

// changed is told of a record that may have changed, of any for the id "".
func (r *readiness) changed(sandboxID string) {
	r.each(sandboxID, func(p *probe) {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	})
}

// settle ends the waits for a sandbox: it is known what became of it.
func (r *readiness) settle(sandboxID string, why cause.Cause) {
	r.each(sandboxID, func(p *probe) {
		select {
		case p.told <- why:
		default:
		}
	})
}

// drain ends all waits, and any that would begin from now on.
func (r *readiness) drain() {
	r.mu.Lock()
	r.drained = true
	r.mu.Unlock()
	r.settle("", cause.Drain)
}

func (r *readiness) each(sandboxID string, do func(*probe)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sandboxID != "" {
		if p := r.probes[sandboxID]; p != nil {
			do(p)
		}
		return
	}
	for _, p := range r.probes {
		do(p)
	}
}

// pauseBefore is how long a new probe leaves ROCK alone, because one before it has asked
// a moment ago: clients that come and go must not ask more often than those that stay.
func (r *readiness) pauseBefore(sandboxID string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.asked[sandboxID]
	if !ok {
		return 0
	}
	return max(statusPause-now.Sub(at), 0)
}

// mayAsk remembers that a sandbox's status is asked for, for as long as that matters.
// A probe that nobody waits for any more may not ask: its heir may have begun, and
// would know nothing of it.
func (r *readiness) mayAsk(ctx context.Context, sandboxID string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if r.asked == nil {
		r.asked = map[string]time.Time{}
	}
	r.asked[sandboxID] = now
	if len(r.asked) <= 2*r.cleaned+64 {
		return true
	}
	for id, at := range r.asked {
		if now.Sub(at) >= statusPause {
			delete(r.asked, id)
		}
	}
	r.cleaned = len(r.asked)
	return true
}

// soFar is what those are told whose time is over.
func (p *probe) soFar() (cause.Cause, error) {
	p.ready.mu.Lock()
	defer p.ready.mu.Unlock()
	return p.last.why, p.last.err
}

// run asks until the start is over, one way or the other, or ctx ends.
func (p *probe) run(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	statuses := make(chan status)
	asking.Go(func() { p.ask(ctx, statuses) })
	found := p.find(ctx, statuses)
	p.ready.mu.Lock()
	defer p.ready.mu.Unlock()
	p.ready.remove(p)
	p.cancel()
	p.found = found
	close(p.done)
}

// find looks at the record again and again: when ROCK has been asked, when the
// registry says that it has changed, and once a second.
func (p *probe) find(ctx context.Context, statuses <-chan status) startup {
	pause := time.NewTimer(recordPause)
	defer pause.Stop()
	for {
		route, err := p.ready.g.opt.Routes.Fresh(ctx, p.sandboxID)
		if err == nil && route.PortsUnknown {
			route, err = p.ready.g.opt.Routes.Map(ctx, route) // it may be starting all the same
		}
		found, over := p.ready.g.startOf(ctx, route, err)
		if over {
			return found
		}
		p.note(found)
		pause.Reset(recordPause)
		select {
		case s := <-statuses:
			if s.failed {
				return startup{why: cause.SandboxFailed, err: errors.New(s.problem)}
			}
		case why := <-p.told:
			return startup{why: why}
		case <-p.changed:
		case <-pause.C:
		case <-ctx.Done():
			return found
		}
	}
}

func (p *probe) note(s startup) {
	p.ready.mu.Lock()
	defer p.ready.mu.Unlock()
	if s.why != cause.ClientGone {
		p.last = s
	}
}

// ask asks the admin role for the sandbox's status, which makes ROCK see that it has
// started, and passes the answers on. A ROCK that fails or is slow is asked less often.
func (p *probe) ask(ctx context.Context, statuses chan<- status) {
	pause := time.NewTimer(p.ready.pauseBefore(p.sandboxID, time.Now()))
	defer pause.Stop()
	for failures := 0; ; {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		if !p.ready.mayAsk(ctx, p.sandboxID, begun) {
			return
		}
		s, err := p.ready.g.adminOf(p.cluster).statusOf(ctx, p.sandboxID)
		if failures++; err == nil {
			failures = 0
		}
		select {
		case statuses <- s: // also after a failure: it may have done its work
		case <-ctx.Done():
			return
		}
		wait := min(max(statusPause<<min(failures, 4), time.Since(begun)), statusPauseMost)
		pause.Reset(wait - rand.N(wait/4)) // so that gateways do not ask in step
	}
}
