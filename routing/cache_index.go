package routing

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// index finds entries by sandbox id. Whoever reads takes no lock; whoever writes
// holds Cache.mu.
//
// Where a million routes are, what a lookup takes is the number of times that it
// waits for memory. So a bucket is as large as what a processor fetches at once and
// has a part of the hash of each of its entries: next after it, as good as always,
// comes the right entry.
//
// An entry stays where it was put, and the number of buckets, which follows from the
// greatest number of entries, never changes: nothing is moved under a reader. Buckets
// come in segments that are made when the first entry needs them and go with the last,
// so that the index is as large as the fleet, and not as all that were ever in it.
type index struct {
	seed     maphash.Seed // ids are made up by strangers, who must not choose a bucket
	segments []atomic.Pointer[segment]
}

const (
	// segmentSize is in buckets, and a segment 512 bytes long: Go puts a word before an
	// object with pointers that is longer, and each bucket would lie in two lines.
	segmentSize = 8
	bucketSize  = 6 // entries
	// fill is how many entries there are at most for each bucket, on average.
	fill = 4
	// maxSegments bounds what an index takes, to 32 MiB and half of one for where they
	// are. From 2 million entries on buckets get longer instead.
	maxSegments = 1 << 16
)

type segment [segmentSize]bucket

// bucket holds entries whose hashes begin alike, 64 bytes with what leads on.
type bucket struct {
	// tags has a byte of each entry's hash, never 0, and 0 where there is no entry.
	tags    atomic.Uint64
	entries [bucketSize]atomic.Pointer[entry]
	next    atomic.Pointer[bucket]
}

// newIndex makes one with room for so many entries.
func newIndex(entries int) index {
	const each = segmentSize * fill
	segments := min((entries+each-1)/each, maxSegments)
	return index{
		seed:     maphash.MakeSeed(),
		segments: make([]atomic.Pointer[segment], 1<<bits.Len(uint(segments-1))),
	}
}

// place is where an id belongs: a bucket of a segment, and its tag there.
type place struct {
	segment *atomic.Pointer[segment]
	bucket  int
	tag     uint8
}

func (x *index) place(sandboxID string) place {
	hash := maphash.String(x.seed, sandboxID)
	return place{
		segment: &x.segments[hash>>32&uint64(len(x.segments)-1)],
		bucket:  int(hash >> 8 % segmentSize),
		tag:     uint8(hash) | 1,
	}
}

// load returns the entry of a sandbox, nil if there is none.
func (x *index) load(sandboxID string) *entry {
	p := x.place(sandboxID)
	s := p.segment.Load()
	if s == nil {
		return nil
	}
	for b := &s[p.bucket]; b != nil; b = b.next.Load() {
		tags := b.tags.Load()
		for i := range bucketSize {
			if uint8(tags>>(8*i)) != p.tag {
				continue
			}
			if e := b.entries[i].Load(); e != nil && e.is(sandboxID) {
				return e
			}
		}
	}
	return nil
}

// put makes e the entry of its sandbox, in place of old, the one that is in, or nil.
// No reader finds none where one is replaced.
func (x *index) put(e, old *entry) {
	copy(e.inside[:], e.sandboxID)
	p := x.place(e.sandboxID)
	if old != nil {
		b, i := x.find(p, old)
		b.entries[i].Store(e)
		return
	}
	b, i := x.find(p, nil)
	b.entries[i].Store(e)
	b.tag(i, p.tag)
}

// remove takes e out, which is in.
func (x *index) remove(e *entry) {
	p := x.place(e.sandboxID)
	b, i := x.find(p, e)
	b.tag(i, 0)
	b.entries[i].Store(nil)
	if p.segment.Load().empty() {
		p.segment.Store(nil) // who reads it now finds nothing, as is right
	}
}

// empty reports a segment without an entry.
func (s *segment) empty() bool {
	for i := range s {
		for b := &s[i]; b != nil; b = b.next.Load() {
			if b.tags.Load() != 0 {
				return false
			}
		}
	}
	return true
}

// find returns where an entry is that is in, or for nil where one can be put.
func (x *index) find(p place, e *entry) (*bucket, int) {
	s := p.segment.Load()
	if s == nil {
		s = new(segment)
		p.segment.Store(s)
	}
	for b := &s[p.bucket]; ; b = b.next.Load() {
		for i := range bucketSize {
			if b.entries[i].Load() == e {
				return b, i
			}
		}
		if b.next.Load() == nil {
			b.next.Store(new(bucket))
		}
	}
}

func (b *bucket) tag(i int, tag uint8) {
	at := 8 * i
	b.tags.Store(b.tags.Load()&^(0xff<<at) | uint64(tag)<<at)
}
