package handlers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// ROCK stops a sandbox when its time is over, and begins that anew with each call that
// it sees. What lasts it does not see, nor what does not come by its proxy role. So the
// gateway notes which sandboxes are in use and pushes their ends back: those through
// whose streams, files and sockets bytes go, in either direction, and those that are
// dialled without ROCK.

const (
	// looksForUse is how often, in each Options.Activity, it is looked which sandboxes
	// are in use: a sandbox's first byte after a silence must not wait for long.
	looksForUse = 6
	// pushes is how many ends are pushed back at a time.
	pushes = 8
	// pushTimeout bounds one of them.
	pushTimeout = 5 * time.Second
)

// activity is which sandboxes are in use.
type activity struct {
	g  *Gateway
	on bool // somebody looks
	// brief are the sandboxes of calls that ROCK does not see, by id: a *use each. The
	// calls themselves may be over long before anybody looks.
	brief sync.Map

	// The rest belongs to the goroutine that looks.

	// due are sandboxes whose end is to be pushed back.
	due map[string]due
	// pushed is when it last was, or should have been.
	pushed map[string]time.Time
}

type due struct {
	route *routing.Route
	since time.Time
}

// use is a sandbox that is, or was a moment ago, in use by calls that ROCK does not see.
type use struct {
	route *routing.Route
	state atomic.Int32
}

// States of a use.
const (
	unused  = iota // since the last look
	used           // since the last look
	useOver        // it is out of the map
)

// touch notes a use of a sandbox. It takes no lock, and memory for the first one only.
func (a *activity) touch(route *routing.Route) {
	for a.on {
		v, ok := a.brief.Load(route.SandboxID)
		if !ok {
			v, _ = a.brief.LoadOrStore(route.SandboxID, &use{route: route})
		}
		u := v.(*use)
		if u.state.Load() == used || u.state.CompareAndSwap(unused, used) {
			return
		}
	}
}

// takeBrief notes the sandboxes that were touched since the last time as due, and lets go
// of those that were not.
func (a *activity) takeBrief(now time.Time) {
	a.brief.Range(func(id, v any) bool {
		switch u := v.(*use); {
		case u.state.CompareAndSwap(used, unused):
			a.want(u.route, now)
		case u.state.CompareAndSwap(unused, useOver):
			a.brief.CompareAndDelete(id, v)
		}
		return true
	})
}

// want notes a sandbox as due. The use that is noted counts from the first one.
func (a *activity) want(route *routing.Route, now time.Time) {
	if _, ok := a.due[route.SandboxID]; !ok {
		a.due[route.SandboxID] = due{route, now}
	}
}

// run pushes ends back until ctx ends.
func (a *activity) run(ctx context.Context) {
	a.due, a.pushed = map[string]due{}, map[string]time.Time{}
	look := time.NewTicker(max(a.g.opt.Activity/looksForUse, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-look.C:
			a.look(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// look finds the sandboxes that were used since the last look and pushes back the ends
// of those for which that was not done within Options.Activity.
func (a *activity) look(ctx context.Context, now time.Time) {
	a.takeBrief(now)
	for _, r := range a.g.moved() {
		a.want(r, now)
	}
	every := a.g.opt.Activity
	var turn []*routing.Route
	for id, d := range a.due {
		switch at, ok := a.pushed[id]; {
		case ok && now.Sub(at) < every:
		case now.Sub(d.since) > 3*every:
			delete(a.due, id) // nobody could push it back, and it is not in use any more
		default:
			turn = append(turn, d.route)
		}
	}
	for id, at := range a.pushed {
		if now.Sub(at) >= every {
			delete(a.pushed, id)
		}
	}
	a.pushAll(ctx, turn, now)
}

// pushAll pushes back ends for at most Options.Activity. Those that are left keep due.
func (a *activity) pushAll(ctx context.Context, routes []*routing.Route, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, a.g.opt.Activity)
	defer cancel()
	var mu sync.Mutex
	next := 0
	take := func() *routing.Route {
		mu.Lock()
		defer mu.Unlock()
		if next == len(routes) || ctx.Err() != nil {
			return nil
		}
		next++
		return routes[next-1]
	}
	done := func(id string, pushed bool) {
		mu.Lock()
		defer mu.Unlock()
		a.pushed[id] = now
		if pushed {
			delete(a.due, id)
		}
	}
	var workers sync.WaitGroup
	for range min(pushes, len(routes)) {
		workers.Go(func() {
			for route := take(); route != nil; route = take() {
				done(route.SandboxID, a.push(ctx, route))
			}
		})
	}
	workers.Wait()
}

// push pushes back the end of a sandbox. It reports false when that is worth another
// try: a registry that cannot be asked says so itself.
func (a *activity) push(ctx context.Context, route *routing.Route) bool {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	err := a.g.opt.Routes.Extend(ctx, route)
	return err == nil || errors.Is(err, routing.ErrGone) || errors.Is(err, routing.ErrMalformed) || errors.Is(err, errors.ErrUnsupported)
}

// moved are the sandboxes of the calls that run and through which bytes have gone since
// the last time.
func (g *Gateway) moved() (routes []*routing.Route) {
	g.calls.each(func(r *running) {
		if r.dog != nil && r.dog.moved.Swap(false) {
			routes = append(routes, r.route)
		}
	})
	return routes
}
