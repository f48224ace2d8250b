package tally

import (
	"maps"
	"sync"
	"testing"
	"time"
)

func TestATimeIsInEveryBucketThatIsNoShorter(t *testing.T) {
	h := NewHistogram(time.Millisecond, time.Second)
	for _, d := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Millisecond + 1, time.Second, time.Second + 1, time.Hour} {
		h.Observe(d)
	}
	got := h.Read()
	if want := (map[float64]uint64{0.001: 3, 1: 5}); !maps.Equal(got.Buckets, want) || got.Count != 7 {
		t.Errorf("%d, %v", got.Count, got.Buckets)
	}
	if want := 2*time.Millisecond + 2*time.Second + time.Hour + 2; got.Sum != want {
		t.Errorf("together %v, want %v", got.Sum, want)
	}
}

// Prometheus calls a histogram broken of which a bucket has more than there are.
func TestWhatIsReadWhileOthersCountAddsUp(t *testing.T) {
	h := NewHistogram(time.Millisecond)
	var counting sync.WaitGroup
	defer counting.Wait()
	for range 4 {
		counting.Go(func() {
			for range 1000 {
				h.Observe(0)
				h.Observe(time.Second)
			}
		})
	}
	for last := uint64(0); last < 4000; {
		got := h.Read()
		if got.Buckets[0.001] > got.Count || got.Count < last {
			t.Fatalf("%d after %d, %v", got.Count, last, got.Buckets)
		}
		last = got.Count
	}
}

func TestCountingTakesNoMemory(t *testing.T) {
	h := NewHistogram(time.Millisecond, time.Second)
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Second); _ = Stripe() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
