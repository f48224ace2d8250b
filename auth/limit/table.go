package limit

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// table holds the counters of owners, or of sandboxes, by id. Only those that a
// limit holds for are in it, and only while they do something.
type table struct {
	seed   maphash.Seed
	shards [32]shard
}

type shard struct {
	mu   sync.RWMutex
	uses map[string]*use
}

// use is what one of them does.
type use struct {
	// full is when each bucket will be full again, in nanoseconds of the clock:
	// the theoretical arrival time of the generic cell rate algorithm.
	full [kinds]atomic.Int64
	// each is what one call takes of a bucket, in nanoseconds.
	each [kinds]atomic.Int64
	// admitted here since the last report.
	admitted [kinds]atomic.Int64
	// streams are open here, elsewhere as many as we heard of.
	streams, elsewhere atomic.Int64
}

func (t *table) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].uses = map[string]*use{}
	}
}

func (t *table) shard(id string) *shard {
	return &t.shards[maphash.String(t.seed, id)%uint64(len(t.shards))]
}

// with calls f with the counters of id. They are not forgotten meanwhile.
func (t *table) with(id string, f func(*use)) {
	s := t.shard(id)
	s.mu.RLock()
	if u := s.uses[id]; u != nil {
		f(u)
		s.mu.RUnlock()
		return
	}
	s.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[id]
	if u == nil {
		u = new(use)
		s.uses[id] = u
	}
	f(u)
}

// take counts one, at most rate in a unit of time on average and as many, one at
// least, at once: jobs start many sandboxes together. When it is too much,
// nothing is counted and wait is how long it would be so.
func (t *table) take(id string, k kind, rate float64, now int64) (wait time.Duration, ok bool) {
	// In an int64 the time for one of a tiny rate would be negative, and the rate
	// no limit at all.
	each := int64(min(float64(per[k].unit)/rate, float64(longest)))
	room := int64(math.Max(1, rate) * float64(each))
	t.with(id, func(u *use) {
		u.each[k].Store(each)
		for {
			old := u.full[k].Load()
			full := max(old, now) + each
			if over := full - room - now; over > 0 {
				wait = time.Duration(over)
				return
			}
			if u.full[k].CompareAndSwap(old, full) {
				u.admitted[k].Add(1)
				ok = true
				return
			}
		}
	})
	return wait, ok
}

// longest is what one call takes at the most.
const longest = 365 * 24 * time.Hour

// open counts one more stream unless there are most of them.
func (t *table) open(id string, most int64) (ok bool) {
	t.with(id, func(u *use) {
		for {
			n := u.streams.Load()
			if n+u.elsewhere.Load() >= most {
				return
			}
			if u.streams.CompareAndSwap(n, n+1) {
				ok = true
				return
			}
		}
	})
	return ok
}

// spent takes note of n admitted elsewhere.
func (u *use) spent(k kind, n, each, now int64) {
	// Whatever another gateway says, an hour of it is over within an hour.
	n, each = min(n, int64(time.Hour)/max(each, 1)), min(each, int64(time.Hour))
	for {
		old := u.full[k].Load()
		full := max(old, now) + n*each
		if u.full[k].CompareAndSwap(old, full) {
			return
		}
	}
}

func (t *table) closed(id string) {
	t.with(id, func(u *use) { u.streams.Add(-1) })
}

// sweep calls f with everything there is and forgets who does nothing any more.
func (t *table) sweep(now int64, f func(id string, u *use)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for id, u := range s.uses {
			f(id, u)
			if u.idle(now) {
				delete(s.uses, id)
			}
		}
		s.mu.Unlock()
	}
}

func (u *use) idle(now int64) bool {
	for k := range kinds {
		if u.full[k].Load() > now {
			return false
		}
	}
	return u.streams.Load() == 0 && u.elsewhere.Load() == 0
}
