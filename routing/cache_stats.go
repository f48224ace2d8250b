package routing

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// CacheStats is a snapshot of a cache's counters. Counters start at zero with
// the cache and only grow; the last group is the present.
type CacheStats struct {
	// Hits were answered from memory, Misses were not. Negative is how many of the
	// hits were no running route.
	Hits     uint64 `json:"hits"`
	Negative uint64 `json:"negative"`
	Misses   uint64 `json:"misses"`
	// Fresh is the number of calls of [Cache.Fresh].
	Fresh uint64 `json:"fresh"`
	// Lookups is how often the registry was asked.
	Lookups uint64 `json:"lookups"`
	// Coalesced callers shared the lookup of another.
	Coalesced uint64 `json:"coalesced"`
	// Found, Gone, Unavailable and Malformed are how lookups ended;
	// Unavailable includes every error that is none of the others, and
	// lookups that found no place to run.
	Found       uint64 `json:"found"`
	Gone        uint64 `json:"gone"`
	Unavailable uint64 `json:"unavailable"`
	Malformed   uint64 `json:"malformed"`
	// Refused callers were not let through to a failing registry.
	Refused uint64 `json:"refused"`
	// StaleServed callers got a last known route.
	StaleServed uint64 `json:"stale_served"`
	// Invalidations counts the calls of [Cache.Invalidate] and [Cache.Forget].
	Invalidations uint64 `json:"invalidations"`
	// Fenced answers came too late to be remembered.
	Fenced uint64 `json:"fenced"`
	// Evictions made room for newer entries.
	Evictions uint64 `json:"evictions"`

	// Entries is the number of remembered answers.
	Entries int `json:"entries"`
	// InFlight is the number of unfinished lookups.
	InFlight int `json:"in_flight"`
	// Failing says that the registry answers nobody at present.
	Failing bool `json:"failing"`
	// OldestStale is the greatest age of a route served stale since the
	// registry last answered, 0 if none was.
	OldestStale time.Duration `json:"oldest_stale_ns"`
	// LastFailure is the last error that was a don't know, and
	// LastFailureAge how long ago it was. It is meant for operators: it may
	// name addresses.
	LastFailure    string        `json:"last_failure,omitempty"`
	LastFailureAge time.Duration `json:"last_failure_age_ns,omitempty"`
}

// stripes is how many places hits are counted in. One place would be written
// by every processor on every request.
const stripes = 16

type counters struct {
	hits [stripes]struct {
		atomic.Uint64
		_ [120]byte // two cache lines, as processors fetch them in pairs
	}
	negative                            atomic.Uint64
	misses, fresh, lookups, coalesced   atomic.Uint64
	found, gone, unavailable, malformed atomic.Uint64
	refused, stale, invalidations       atomic.Uint64
	fenced, evictions                   atomic.Uint64
	oldestStale                         atomic.Int64

	mu        sync.Mutex
	failure   error
	failureAt int64
}

// hit counts a running route that was served from memory.
func (n *counters) hit() { n.hits[rand.Uint32()%stripes].Add(1) }

// served counts a last known route of the given age in nanoseconds.
func (n *counters) served(age int64) {
	n.stale.Add(1)
	for {
		oldest := n.oldestStale.Load()
		if age <= oldest || n.oldestStale.CompareAndSwap(oldest, age) {
			return
		}
	}
}

func (n *counters) answered(err error) {
	if err == nil {
		n.found.Add(1)
	} else {
		n.gone.Add(1)
	}
	n.oldestStale.Store(0)
}

func (n *counters) failed(err error, now int64) {
	if errors.Is(err, ErrMalformed) {
		n.malformed.Add(1)
	} else {
		n.unavailable.Add(1)
	}
	n.mu.Lock()
	n.failure, n.failureAt = err, now
	n.mu.Unlock()
}

// Stats returns the cache's counters. They are read one after the other, so
// that under load their sums are only about right.
func (c *Cache) Stats() CacheStats {
	n := &c.count
	s := CacheStats{
		Negative:      n.negative.Load(),
		Misses:        n.misses.Load(),
		Fresh:         n.fresh.Load(),
		Lookups:       n.lookups.Load(),
		Coalesced:     n.coalesced.Load(),
		Found:         n.found.Load(),
		Gone:          n.gone.Load(),
		Unavailable:   n.unavailable.Load(),
		Malformed:     n.malformed.Load(),
		Refused:       n.refused.Load(),
		StaleServed:   n.stale.Load(),
		Invalidations: n.invalidations.Load(),
		Fenced:        n.fenced.Load(),
		Evictions:     n.evictions.Load(),
		Failing:       c.health.failing(c.now()),
		OldestStale:   time.Duration(n.oldestStale.Load()),
	}
	s.Hits = s.Negative
	for i := range n.hits {
		s.Hits += n.hits[i].Load()
	}
	n.mu.Lock()
	if n.failure != nil {
		s.LastFailure = n.failure.Error()
		s.LastFailureAge = time.Duration(c.now() - n.failureAt)
	}
	n.mu.Unlock()
	c.mu.Lock()
	s.Entries = c.routes.length + c.briefs.length
	for _, flights := range c.flights {
		s.InFlight += len(flights)
	}
	c.mu.Unlock()
	return s
}

// Plus is the sum of the counters of two caches. What is the present of s alone stays.
func (s CacheStats) Plus(other CacheStats) CacheStats {
	s.Hits += other.Hits
	s.Negative += other.Negative
	s.Misses += other.Misses
	s.Fresh += other.Fresh
	s.Lookups += other.Lookups
	s.Coalesced += other.Coalesced
	s.Found += other.Found
	s.Gone += other.Gone
	s.Unavailable += other.Unavailable
	s.Malformed += other.Malformed
	s.Refused += other.Refused
	s.StaleServed += other.StaleServed
	s.Invalidations += other.Invalidations
	s.Fenced += other.Fenced
	s.Evictions += other.Evictions
	return s
}
