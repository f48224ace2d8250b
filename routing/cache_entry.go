package routing

import (
	"sync/atomic"
	"time"
)

// rockID is how long ROCK makes its ids.
const rockID = 32

// entry is one remembered answer. There may be a million of them, so it holds
// nothing that follows from something else. But for failed and the links it never
// changes once it can be read; times are [Cache.now] nanoseconds.
type entry struct {
	// What a hit reads comes first.
	sandboxID string
	inside    [rockID]byte // the bytes of sandboxID, if there is room, see is
	route     *Route       // nil: gone
	expires   int64
	epoch     uint64

	asked int64 // when the question was put
	// failed is when a lookup last failed to renew the entry, or could not be made,
	// 0 for never, and [renewing] while one is made.
	failed atomic.Int64
	// former is the route in place of which this answer is known: the one that
	// was deleted through us, or the one without ports of which route is a copy
	// with them. Else nil.
	former *Route

	older, newer *entry // in Cache.routes or Cache.briefs, under Cache.mu
}

// is reports whether e is the entry of a sandbox. It does not wait for the bytes of the
// string, which lie somewhere else, if they are here as well.
func (e *entry) is(sandboxID string) bool {
	if n := len(e.sandboxID); n == len(sandboxID) && n <= rockID {
		return string(e.inside[:n]) == sandboxID
	}
	return e.sandboxID == sandboxID
}

func (e *entry) answer() (*Route, Source, error) {
	if e.route == nil {
		return nil, SourceCache, ErrGone
	}
	return e.route, SourceCache, nil
}

func (e *entry) running() bool { return e.route != nil && e.route.State == StateRunning }

// deleted reports the life of a sandbox of which e says that it was deleted through us.
func (e *entry) deleted(route *Route) bool {
	return e.route == nil && e.former != nil && e.former.Lifecycle != "" && e.former.Lifecycle == route.Lifecycle
}

func (e *entry) failedSince(t int64) bool {
	failed := e.failed.Load()
	return failed > 0 && failed >= t
}

// current reports whether e, which may be nil, may be served without asking.
func (c *Cache) current(e *entry, now int64) bool {
	return e != nil && e.epoch == c.epoch.Load() && now < e.expires
}

// worthUntil is when e is of no use any more.
func (c *Cache) worthUntil(e *entry) int64 {
	if e.running() {
		return e.expires + int64(c.opt.Stale)
	}
	return e.expires
}

// usable reports whether e, which may be nil, may be served as a last known route.
func (c *Cache) usable(e *entry, now int64) bool {
	return e != nil && e.running() && now < c.worthUntil(e)
}

// entryList holds entries in the order in which they were stored. As none
// ever changes, that is also the order in which they lose their worth.
type entryList struct {
	oldest, newest *entry
	length         int
}

func (l *entryList) add(e *entry) {
	e.older = l.newest
	if l.newest != nil {
		l.newest.newer = e
	} else {
		l.oldest = e
	}
	l.newest = e
	l.length++
}

func (l *entryList) remove(e *entry) {
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		l.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	e.older, e.newer = nil, nil
	l.length--
}

// list is where e has its place.
func (c *Cache) list(e *entry) *entryList {
	if e.running() {
		return &c.routes
	}
	return &c.briefs
}

// store remembers an answer in place of what is remembered of its sandbox. The
// caller has set sandboxID, which must not be a part of something much larger,
// route, former, epoch and asked. c.mu is held.
func (c *Cache) store(e *entry) {
	e.expires = e.asked + int64(c.opt.Negative)
	if e.running() {
		e.expires = e.asked + int64(c.opt.TTL)
	}
	now := c.now()
	if c.worthUntil(e) <= now {
		c.drop(e.sandboxID)
		return
	}
	old := c.entries.load(e.sandboxID)
	if old != nil {
		c.list(old).remove(old)
	}
	c.sweep(now)
	for c.routes.length+c.briefs.length >= c.opt.MaxEntries {
		oldest := c.briefs.oldest
		if oldest == nil {
			oldest = c.routes.oldest
		}
		c.remove(oldest)
		c.count.evictions.Add(1)
	}
	c.list(e).add(e)
	c.entries.put(e, old)
}

// sweep removes a few entries that have had their time: two for each one that
// is stored, so that dead ones cannot pile up and no store takes long.
func (c *Cache) sweep(now int64) {
	for _, l := range []*entryList{&c.briefs, &c.routes} {
		for range 2 {
			e := l.oldest
			if e == nil || now < c.worthUntil(e) {
				break
			}
			c.remove(e)
		}
	}
}

// drop forgets what is remembered of a sandbox. c.mu is held.
func (c *Cache) drop(sandboxID string) {
	if e := c.entries.load(sandboxID); e != nil {
		c.remove(e)
	}
}

func (c *Cache) remove(e *entry) {
	c.list(e).remove(e)
	c.entries.remove(e)
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
	entries := make([]*entry, 0, c.routes.length)
	for e := c.routes.oldest; e != nil; e = e.newer {
		entries = append(entries, e)
	}
	c.mu.Unlock()
	now := c.now()
	for _, e := range entries {
		if !yield(e.route, time.Duration(now-e.asked)) {
			return
		}
	}
}
