// Package tally counts what happens on the way of a request without being in it: no
// lock, no memory and no look at a label when something is counted. What is counted is
// read when somebody asks.
//
// It knows numbers and times, and nothing of what they mean. It must import no other
// package of the project.
package tally

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Stripes is how many places there are to count one thing in, where every request
// counts it. One place would be written by every processor.
const Stripes = 16

// Stripe is one of them, at random.
func Stripe() uint32 { return rand.Uint32() % Stripes }

// Histogram counts times by how long they are. It must be made by [NewHistogram]. All
// methods may be used concurrently.
type Histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64 // by the first bound that is no less; the last for those above all
	sum    atomic.Int64    // nanoseconds
}

// NewHistogram makes a Histogram with the upper bounds of its buckets, each of which is
// greater than the one before.
func NewHistogram(bounds ...time.Duration) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts one time. A negative one counts as none at all: clocks are set.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.sum.Add(int64(d))
	h.counts[i].Add(1)
}

// Times is what a [Histogram] holds at one moment, as Prometheus has it.
type Times struct {
	// Count is how many there are, Sum how long they are together.
	Count uint64
	Sum   time.Duration
	// Buckets is how many are no longer than a number of seconds.
	Buckets map[float64]uint64
}

// Read returns what is held. Count is that of the buckets; a time that is just being
// observed may be in Sum alone.
func (h *Histogram) Read() Times {
	t := Times{Buckets: make(map[float64]uint64, len(h.bounds))}
	for i := range h.counts {
		t.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			t.Buckets[h.bounds[i].Seconds()] = t.Count
		}
	}
	t.Sum = time.Duration(h.sum.Load())
	return t
}
