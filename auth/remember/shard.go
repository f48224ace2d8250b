package remember

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/caddy-e2b/gateway/auth"
)

// shards is the number of parts that the memory is in. One is copied whenever a
// digest is added to it, so it should be small: one for each first byte.
const shards = 256

// shard remembers the digests with one first byte.
type shard struct {
	mu      sync.Mutex // for all changes
	flights map[auth.Digest]*flight
	// keys are the digests of keys. They stay when their answer is too old to
	// be used: that there was such a key is worth knowing.
	keys table
	// void are digests that are no key's. They have a table of their own, so
	// that keys somebody has made up displace no real ones.
	void table
}

func (s *Store) shard(digest auth.Digest) *shard { return &s.shards[digest[0]] }

// finish takes a question off its way: it remembers an answer of the source, and
// nothing when err says that there is none.
func (h *shard) finish(f *flight, digest auth.Digest, size int, a *answer, err error) {
	h.mu.Lock()
	delete(h.flights, digest)
	switch most := max(size/shards, 1); {
	case err == nil:
		f.key = a.key
		h.keys.put(digest, a, most)
		h.void.remove(digest)
	case errors.Is(err, auth.ErrUnknownKey):
		f.err = err
		h.keys.remove(digest)
		h.void.put(digest, &answer{askedAt: a.askedAt}, most)
	default:
		f.err = err
	}
	h.mu.Unlock()
	close(f.done)
}

// table is a map that is read without a lock. Changes copy it, under the lock of
// its shard.
type table struct {
	entries atomic.Pointer[map[auth.Digest]*entry]
}

func (t *table) load() map[auth.Digest]*entry {
	if m := t.entries.Load(); m != nil {
		return *m
	}
	return nil
}

func (t *table) get(digest auth.Digest) *entry { return t.load()[digest] }

// put stores the answer. In a full table it takes the place of the one whose
// question was put first.
func (t *table) put(digest auth.Digest, a *answer, most int) {
	old := t.load()
	if e := old[digest]; e != nil {
		e.answer.Store(a)
		e.refreshing.Store(0) // the gap is for questions that failed
		return
	}
	next := make(map[auth.Digest]*entry, len(old)+1)
	maps.Copy(next, old)
	for len(next) >= most {
		var oldest auth.Digest
		first := true
		at := a.askedAt
		for d, e := range next {
			if asked := e.answer.Load().askedAt; first || asked < at {
				oldest, at, first = d, asked, false
			}
		}
		delete(next, oldest)
	}
	e := new(entry)
	e.answer.Store(a)
	next[digest] = e
	t.entries.Store(&next)
}

func (t *table) remove(digest auth.Digest) {
	old := t.load()
	if old[digest] == nil {
		return
	}
	next := maps.Clone(old)
	delete(next, digest)
	t.entries.Store(&next)
}
