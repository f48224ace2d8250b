package handlers

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// running is one call.
type running struct {
	route  *routing.Route // nil for a call of the control plane
	cancel canceller
	dog    *watchdog // knows whether bytes go by; nil for a call that is no use of a sandbox
	// lasts is told, once, that the call takes longer than most. Nil: that is
	// nothing to it.
	lasts interface{ last() }
	// seen is what operators see of a stream.
	seen *sight
	// stream: it is ended with its sandbox, and not given up before.
	stream bool

	// The rest is under the shard's mu.
	age        age
	of         *shard
	prev, next *running
}

// age is how often a call was seen to run.
type age uint8

const (
	born age = iota
	seen
	old
)

// canceller gives a call up, for a reason.
type canceller interface{ cancel(why error) }

// cancelFunc is a canceller.
type cancelFunc func(why error)

func (f cancelFunc) cancel(why error) { f(why) }

// calls are the calls that are being served. It counts them, lets the ones that are
// no streams be given up, and tells those that last that they do: what bounds a call
// costs more than all the rest of a short one, and need not be there before.
type calls struct {
	running atomic.Int64
	closed  atomic.Bool
	// over has a value when running may have come to 0 after closed was set.
	// It holds one.
	over chan struct{}

	givenUp atomic.Bool
	shards  [shards]shard

	looking atomic.Bool // the next look at the young ones will come
}

// shards is how many parts calls has, so that processors do not wait for each other.
const shards = 16

// shard is a part of the calls that run.
type shard struct {
	mu         sync.Mutex
	young, old queue
	_          [64]byte // the next one's lock is in another cache line
}

// youth is how often the young calls are looked at. A call lasts when it is seen a
// second time, and its client's leaving is noticed by then.
const youth = 25 * time.Millisecond

// queue is a list of calls, the last one first. Its zero value is empty.
type queue struct{ first *running }

func (l *queue) add(r *running) {
	r.prev, r.next = nil, l.first
	if l.first != nil {
		l.first.prev = r
	}
	l.first = r
}

func (l *queue) remove(r *running) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// enter counts a call, which must leave whatever enter says. It reports false
// when the gateway drains: the call must be refused.
func (c *calls) enter() bool {
	c.running.Add(1)
	return !c.closed.Load()
}

func (c *calls) leave() {
	if c.running.Add(-1) == 0 && c.closed.Load() {
		select {
		case c.over <- struct{}{}:
		default:
		}
	}
}

func (c *calls) close() { c.closed.Store(true) }

// wait waits until no call is served any more, for at most d. It reports
// whether that is so.
func (c *calls) wait(ctx context.Context, d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	for c.running.Load() > 0 {
		select {
		case <-c.over:
		case <-limit.C:
			return c.running.Load() == 0
		case <-ctx.Done():
			return c.running.Load() == 0
		}
	}
	return true
}

// add registers a call, until remove is called.
func (c *calls) add(r *running) {
	s := &c.shards[rand.Uint32N(shards)]
	s.mu.Lock()
	r.of = s
	if r.lasts == nil {
		r.age = old
		s.old.add(r)
	} else {
		s.young.add(r)
	}
	s.mu.Unlock()
	if c.givenUp.Load() && !r.stream {
		r.cancel.cancel(ended{cause.Deadline})
	}
	if r.lasts != nil {
		c.wake()
	}
}

// remove takes a call out. It reports one that took longer than most.
func (c *calls) remove(r *running) (lasted bool) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.age == old {
		r.of.old.remove(r)
		return true
	}
	r.of.young.remove(r)
	return false
}

// each does something with every call, in no order.
func (c *calls) each(do func(*running)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, l := range []queue{s.young, s.old} {
			for r := l.first; r != nil; r = r.next {
				do(r)
			}
		}
		s.mu.Unlock()
	}
}

// giveUp gives up the calls that are no streams. To their clients it is the
// gateway's time that ran out: cause.Drain would promise that nothing was done.
func (c *calls) giveUp() {
	c.givenUp.Store(true)
	c.each(func(r *running) {
		if !r.stream {
			r.cancel.cancel(ended{cause.Deadline})
		}
	})
}

// wake has the young calls looked at, if that is not so already.
func (c *calls) wake() {
	if !c.looking.Load() && c.looking.CompareAndSwap(false, true) {
		time.AfterFunc(youth, c.look)
	}
}

// look tells those that last. It comes back while there are young ones.
func (c *calls) look() {
	lasting, young := c.grow()
	for _, r := range lasting {
		r.lasts.last() // the call may be over by now
	}
	if young {
		time.AfterFunc(youth, c.look)
		return
	}
	c.looking.Store(false)
	if c.young() { // it came before somebody could see that nobody looks
		c.wake()
	}
}

// grow makes all young calls older. It returns those that have lasted, and whether
// others are left.
func (c *calls) grow() (lasting []*running, left bool) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for r := s.young.first; r != nil; {
			next := r.next
			if r.age++; r.age == old {
				s.young.remove(r)
				s.old.add(r)
				lasting = append(lasting, r)
			}
			r = next
		}
		left = left || s.young.first != nil
		s.mu.Unlock()
	}
	return lasting, left
}

func (c *calls) young() bool {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		some := s.young.first != nil
		s.mu.Unlock()
		if some {
			return true
		}
	}
	return false
}
