package routing

import (
	"container/list"
	"strings"
	"sync/atomic"
	"time"
)

// entry is one remembered answer. But for failed and mapped it never changes once
// it can be read; times are [Cache.now] nanoseconds.
type entry struct {
	sandboxID string
	route     *Route // nil: gone
	// forgotten is the lifecycle that was deleted through us, if this is how
	// we know that the sandbox is gone.
	forgotten string
	epoch     uint64
	asked     int64 // when the question was put
	expires   int64
	// stale is when the route stops being a last known one; 0 for answers
	// that never are.
	stale int64
	// failed is when a lookup last failed to renew the entry, 0 for never.
	failed atomic.Int64

	// mapped is the route of which route is a copy with its ports, nil if there
	// is none. Under Cache.mu.
	mapped *Route

	place *list.Element // in Cache.routes or Cache.briefs
}

func (e *entry) answer() (*Route, Source, error) {
	if e.route == nil {
		return nil, SourceCache, ErrGone
	}
	return e.route, SourceCache, nil
}

// usable reports whether e may be served as a last known route.
func (e *entry) usable(now int64) bool { return e != nil && now < e.stale }

func (e *entry) failedSince(t int64) bool {
	failed := e.failed.Load()
	return failed != 0 && failed >= t
}

// entryList holds entries in the order in which they were stored. As none is
// ever renewed, that is also the order in which they lose their worth.
type entryList struct{ list.List }

func (l *entryList) oldest() *entry {
	if front := l.Front(); front != nil {
		return front.Value.(*entry)
	}
	return nil
}

func (c *Cache) load(sandboxID string) *entry {
	v, ok := c.entries.Load(sandboxID)
	if !ok {
		return nil
	}
	return v.(*entry)
}

// list is where e has its place.
func (c *Cache) list(e *entry) *entryList {
	if e.stale != 0 {
		return &c.routes
	}
	return &c.briefs
}

// store remembers an answer; a nil route means gone. c.mu is held.
func (c *Cache) store(sandboxID string, route *Route, forgotten string, epoch uint64, asked int64) {
	c.drop(sandboxID)
	e := &entry{
		// The id may be a part of something much larger, such as a header block.
		sandboxID: strings.Clone(sandboxID),
		route:     route,
		forgotten: forgotten,
		epoch:     epoch,
		asked:     asked,
		expires:   asked + int64(c.opt.Negative),
	}
	if route != nil && route.State == StateRunning {
		e.expires = asked + int64(c.opt.TTL)
		e.stale = e.expires + int64(c.opt.Stale)
	}
	now := c.now()
	if max(e.expires, e.stale) <= now {
		return
	}
	c.sweep(now)
	for c.routes.Len()+c.briefs.Len() >= c.opt.MaxEntries {
		oldest := c.briefs.oldest()
		if oldest == nil {
			oldest = c.routes.oldest()
		}
		c.remove(oldest)
		c.count.evictions.Add(1)
	}
	e.place = c.list(e).PushBack(e)
	c.entries.Store(e.sandboxID, e)
}

// sweep removes a few entries that have had their time: two for each one that
// is stored, so that dead ones cannot pile up and no store takes long.
func (c *Cache) sweep(now int64) {
	for _, l := range []*entryList{&c.briefs, &c.routes} {
		for range 2 {
			e := l.oldest()
			if e == nil || now < max(e.expires, e.stale) {
				break
			}
			c.remove(e)
		}
	}
}

// drop forgets what is remembered of a sandbox. c.mu is held.
func (c *Cache) drop(sandboxID string) {
	if e := c.load(sandboxID); e != nil {
		c.remove(e)
	}
}

func (c *Cache) remove(e *entry) {
	c.list(e).Remove(e.place)
	c.entries.Delete(e.sandboxID)
}

// fence keeps every lookup of the sandbox that has put its question from
// storing the answer. c.mu is held.
func (c *Cache) fence(sandboxID string) {
	for _, f := range c.flights[sandboxID] {
		if f.asked {
			f.outdated = true
		}
	}
}

// Entries calls yield for every remembered running route, the oldest first,
// until yield returns false: for an operator's listing, not for routing. age is
// the time since the registry was asked.
func (c *Cache) Entries(yield func(route *Route, age time.Duration) bool) {
	c.mu.Lock()
	entries := make([]*entry, 0, c.routes.Len())
	for place := c.routes.Front(); place != nil; place = place.Next() {
		entries = append(entries, place.Value.(*entry))
	}
	c.mu.Unlock()
	now := c.now()
	for _, e := range entries {
		if !yield(e.route, time.Duration(now-e.asked)) {
			return
		}
	}
}
