package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// flight is one lookup on its way, shared by everybody who needs its answer.
type flight struct {
	sandboxID string
	asker     Asker
	// after is an unfinished lookup of the same sandbox that this one follows.
	after *flight

	// Under Cache.mu:
	asked    bool // the question was put; until then the answer is still to be made
	outdated bool // something newer is known than the question
	over     bool
	epoch    uint64
	askedAt  int64

	done  chan struct{} // closed when route and err are set
	route *Route
	err   error
}

var errClosed = fmt.Errorf("%w: the cache is closed", ErrUnavailable)

// acceptance says which lookups in progress a caller may share.
type acceptance uint8

const (
	// acceptRunning: any, but for those that something newer is known of.
	acceptRunning acceptance = iota
	// acceptUnasked: only one that has not put its question yet.
	acceptUnasked
)

// renewalsQueue is how many lookups may wait for each place before those for which
// there is a last known route wait no more. When everything was invalidated, all that
// is used must be renewed; who is new must not wait for that.
const renewalsQueue = 16

// join returns a lookup of the sandbox to wait for, in progress or started
// here. For acceptRunning it may return an entry instead: one that was stored
// since the caller looked, or else a last known route, because too many wait.
// The error is an ErrUnavailable: nothing was asked.
func (c *Cache) join(sandboxID string, asker Asker, accept acceptance) (*flight, *entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	epoch := c.epoch.Load()
	e := c.entries.load(sandboxID)
	if accept == acceptRunning && c.current(e, now) {
		c.count.coalesced.Add(1)
		return nil, e, nil
	}

	var latest *flight
	if running := c.flights[sandboxID]; len(running) > 0 {
		latest = running[len(running)-1]
		if !latest.asked && latest.asker > asker {
			// It waits behind strangers: whoever is known does not.
			return c.start(sandboxID, asker, nil)
		}
		current := !latest.outdated && latest.epoch == epoch
		if !latest.asked || accept == acceptRunning && current {
			c.count.coalesced.Add(1)
			return latest, nil, nil
		}
	}

	if accept == acceptRunning && c.usable(e, now) && c.places[asker].crowded() {
		return nil, e, nil
	}
	return c.start(sandboxID, asker, latest)
}

// start begins a lookup that follows an earlier one, or none. c.mu is held.
func (c *Cache) start(sandboxID string, asker Asker, after *flight) (*flight, *entry, error) {
	if c.ctx.Err() != nil {
		return nil, nil, errClosed
	}
	if err := c.health.refuse(c.now()); err != nil {
		c.count.refused.Add(1)
		return nil, nil, err
	}
	if !c.places[asker].queue() {
		c.count.refused.Add(1)
		return nil, nil, errBusy
	}
	f := &flight{sandboxID: strings.Clone(sandboxID), asker: asker, after: after, done: make(chan struct{})}
	c.flights[f.sandboxID] = append(c.flights[f.sandboxID], f)
	go c.fly(f)
	return f, nil, nil
}

// fly waits for its turn, asks the registry once and finishes f, QueueTimeout
// and LookupTimeout from now at the latest. It may itself live longer, in a
// registry that ignores its context.
func (c *Cache) fly(f *flight) {
	if err := c.takePlace(f); err != nil {
		c.finish(f, nil, err)
		return
	}
	defer func() { <-c.places[f.asker].free }()

	ctx, cancel := context.WithTimeout(c.ctx, c.opt.LookupTimeout)
	defer cancel()
	// A registry that keeps to its contract has returned before this fires.
	watchdog := time.AfterFunc(c.opt.LookupTimeout+c.opt.LookupTimeout/10, func() {
		c.finish(f, nil, fmt.Errorf("%w: no answer within %v", ErrUnavailable, c.opt.LookupTimeout))
	})
	defer watchdog.Stop()
	c.ask(f)
	route, err := c.reg.Lookup(ctx, f.sandboxID)
	if err != nil {
		route = nil
	} else if route == nil {
		err = fmt.Errorf("%w: it is empty", ErrMalformed)
	}
	c.finish(f, route, err)
}

// takePlace waits until f may put its question: after an earlier lookup of the
// same sandbox, and when fewer than MaxLookups run. That many callers ask says
// nothing about the registry, so the wait has a bound of its own; that those
// who went before got no answer does, and ends it.
func (c *Cache) takePlace(f *flight) error {
	places := &c.places[f.asker]
	defer places.waiting.Add(-1)
	ctx, cancel := context.WithTimeout(c.ctx, c.opt.QueueTimeout)
	defer cancel()
	if f.after != nil {
		c.follow(ctx, f.after)
		f.after = nil
	}
	// The places are handed out in the order in which they were asked for, so
	// nobody may leave the queue to look around and line up again.
	failing := c.health.watch()
	select {
	case places.free <- struct{}{}:
		return nil
	default:
		if c.health.failing(c.now()) { // this is the probe, and no place is free
			c.count.refused.Add(1)
			return errRefused
		}
	}
	select {
	case places.free <- struct{}{}:
		return nil
	case <-failing:
		c.count.refused.Add(1)
		return errRefused
	case <-ctx.Done():
		if c.ctx.Err() != nil {
			return errClosed
		}
		return fmt.Errorf("%w: %d lookups are in progress already", ErrUnavailable, cap(places.free))
	}
}

// follow waits for an earlier lookup of the same sandbox, but not for ever: it
// may be stuck on a dead connection, and a second one may not be.
func (c *Cache) follow(ctx context.Context, earlier *flight) {
	timer := time.NewTimer(c.opt.Patience)
	defer timer.Stop()
	select {
	case <-earlier.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ask marks the moment in which the question is put: from now on an
// invalidation outdates the answer.
func (c *Cache) ask(f *flight) {
	c.mu.Lock()
	f.asked = true
	f.epoch = c.epoch.Load()
	f.askedAt = c.now()
	c.mu.Unlock()
	c.count.lookups.Add(1)
}

// finish publishes an answer and remembers it if it is one and nothing newer
// is known. Only the first call for a flight counts.
func (c *Cache) finish(f *flight, route *Route, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.over {
		c.count.fenced.Add(1)
		return
	}
	f.over = true
	now := c.now()
	if e := c.entries.load(f.sandboxID); route != nil && e != nil && e.deleted(route) && now < e.expires {
		route, err = nil, ErrGone // the record of a sandbox that we know is deleted
		f.outdated = true
	}
	known := err == nil || errors.Is(err, ErrGone)
	earlier := c.leave(f)
	switch {
	case !known:
		c.count.failed(err, now)
		if e := c.entries.load(f.sandboxID); e != nil {
			e.failed.Store(max(now, 1))
		}
	case f.outdated || f.epoch != c.epoch.Load():
		c.count.fenced.Add(1)
	default:
		c.store(&entry{sandboxID: f.sandboxID, route: route, epoch: f.epoch, asked: f.askedAt})
		for _, old := range earlier {
			old.outdated = true
		}
	}
	if known {
		c.count.answered(err)
	}
	if f.asked {
		c.health.report(now, err, c.opt.LookupTimeout)
	}
	if known && f.outdated {
		route, err = c.overtaken(f, now, route, err)
	}
	f.route, f.err = route, err
	close(f.done)
}

// overtaken is what who waits for f is told, which is outdated: the answer to a later
// question, if that is known. The one to f may be the record of a life that was deleted
// through us, and of which nothing is remembered any more but that another has followed.
func (c *Cache) overtaken(f *flight, now int64, route *Route, err error) (*Route, error) {
	e := c.entries.load(f.sandboxID)
	if !c.current(e, now) || e.asked < f.askedAt || e.former != nil { // what was deleted says nothing of other lives
		return route, err
	}
	route, _, err = e.answer()
	return route, err
}

// leave takes f off the list of its sandbox and returns those that put their
// question before it.
func (c *Cache) leave(f *flight) []*flight {
	running := c.flights[f.sandboxID]
	i := slices.Index(running, f)
	running = slices.Delete(running, i, i+1)
	if len(running) == 0 {
		delete(c.flights, f.sandboxID)
		return nil
	}
	c.flights[f.sandboxID] = running
	return running[:i]
}
