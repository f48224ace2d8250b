package routing

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestIndexFindsWhatIsInIt(t *testing.T) {
	for name, size := range map[string]int{
		"with room":                4000,
		"with much less than that": 1, // buckets lead on to further ones
	} {
		t.Run(name, func(t *testing.T) {
			x, in := newIndex(size), map[string]*entry{}
			// Shorter than ROCK's, as long, longer, and alike in as many bytes as those.
			idOf := func(n int) string { return strings.Repeat("x", n%4*14) + fmt.Sprint(n) }
			for range 10_000 {
				id := idOf(rand.IntN(4000))
				switch old := in[id]; {
				case old != nil && rand.IntN(2) == 0:
					x.remove(old)
					delete(in, id)
				default:
					in[id] = &entry{sandboxID: id}
					x.put(in[id], old)
				}
				if id = idOf(rand.IntN(4000)); x.load(id) != in[id] {
					t.Fatalf("%s: %v, want %v", id, x.load(id), in[id])
				}
			}
			for i := range 4000 {
				if id := idOf(i); x.load(id) != in[id] {
					t.Fatalf("in the end, %s: %v, want %v", id, x.load(id), in[id])
				}
			}
		})
	}
}

// A reader has no lock. What was there all the time it finds, whatever comes and goes
// beside it, and of one that is replaced it finds the old or the new.
func TestIndexIsReadWhileItIsWritten(t *testing.T) {
	x := newIndex(1)
	const stay, come = 300, 300
	for i := range stay {
		x.put(&entry{sandboxID: fmt.Sprint("stays", i)}, nil)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprint("stays", rand.IntN(stay))
				if e := x.load(id); e == nil || e.sandboxID != id {
					t.Errorf("%s: %v", id, e)
					return
				}
				id = fmt.Sprint("comes", rand.IntN(come))
				if e := x.load(id); e != nil && e.sandboxID != id {
					t.Errorf("%s: %v", id, e)
					return
				}
			}
		})
	}
	for range 10_000 {
		id := fmt.Sprint("comes", rand.IntN(come))
		if old := x.load(id); old != nil {
			x.remove(old)
		} else {
			x.put(&entry{sandboxID: id}, nil)
		}
		id = fmt.Sprint("stays", rand.IntN(stay))
		x.put(&entry{sandboxID: id}, x.load(id))
	}
	close(stop)
	readers.Wait()
}

// What the dead took is given back, or the index grows until everybody has been there.
func TestIndexIsAsLargeAsWhatIsInIt(t *testing.T) {
	for name, size := range map[string]int{"with room": 1_000_000, "with much less than that": 1} {
		x := newIndex(size)
		held := func() (n int) {
			for i := range x.segments {
				if x.segments[i].Load() != nil {
					n++
				}
			}
			return n
		}
		for i := range 10_000 {
			e := &entry{sandboxID: fmt.Sprint(i)}
			x.put(e, nil)
			if x.load(e.sandboxID) != e {
				t.Fatalf("%s: %s is not found", name, e.sandboxID)
			}
			x.remove(e)
		}
		if n := held(); n != 0 {
			t.Errorf("%s: 10,000 entries came and went, and %d segments are left", name, n)
		}
		for i := range 100 {
			x.put(&entry{sandboxID: fmt.Sprint(i)}, nil)
		}
		if n := held(); n == 0 || n > 100 {
			t.Errorf("%s: 100 entries take %d segments", name, n)
		}
	}
}

// The least and the most that can be configured.
func TestIndexHasABoundedSize(t *testing.T) {
	for entries, segments := range map[int]int{1: 1, 32: 1, 33: 2, 1_000_000: 1 << 15, 1 << 40: maxSegments} {
		if x := newIndex(entries); len(x.segments) != segments {
			t.Errorf("for %d entries: %d segments, want %d", entries, len(x.segments), segments)
		}
	}
}
