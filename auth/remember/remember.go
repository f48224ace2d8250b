// Package remember keeps the answers of a store of API keys that does I/O, for
// less than a second, so that a request with a known key waits for nobody and a
// key that was taken back is taken back within a second everywhere.
package remember

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

const (
	// MaxAge is how long an answer is used, from the moment at which the
	// question was put: whatever changes in the store is obeyed after MaxAge
	// at the latest.
	MaxAge = 900 * time.Millisecond
	// refreshAge is the age from which a question is put again while the last
	// answer is still used. What is left until MaxAge is the time for it, and
	// for another try when it fails. A key in use waits for nothing as long as
	// answers take less than half of MaxAge.
	refreshAge = 300 * time.Millisecond
	// refreshGap is the least time between two questions that refresh, while
	// none is answered.
	refreshGap = 100 * time.Millisecond
)

// Options bound what a [Store] does. Zero values mean the defaults.
type Options struct {
	// Timeout bounds one question. Default, and at most: MaxAge.
	Timeout time.Duration
	// Questions is how many questions about keys that have never been seen to
	// exist are put at a time. Those about the others have as many places of
	// their own, so that nobody keeps them out with keys he has made up.
	// Default: 16.
	Questions int
	// Waiting is how many more wait for a place, for as long as a question may
	// take. Default: 1024.
	Waiting int
	// Size is how many keys are remembered, and again how many digests that
	// are no key's. Default: 16384.
	Size int
}

// Store is an [auth.Store] that remembers the answers of another one. Looking up
// what is remembered takes no lock and allocates nothing.
type Store struct {
	source auth.Store
	opt    Options
	shards [shards]shard
	begin  time.Time

	// Places for questions, by what is known of their key.
	known, strange places

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	mu     sync.Mutex // orders the start of a question and Close
	asking sync.WaitGroup
}

// answer is what the source said.
type answer struct {
	key     *auth.Key     // nil: there is no such key
	askedAt time.Duration // when the question was put, since begin
}

// entry is one digest.
type entry struct {
	answer     atomic.Pointer[answer]
	refreshing atomic.Int64 // the next refresh may begin, nanoseconds since begin
}

// New returns a Store in front of source, which it owns: when source is an
// [io.Closer], Close closes it.
func New(source auth.Store, opt Options) *Store {
	if opt.Timeout <= 0 || opt.Timeout > MaxAge {
		opt.Timeout = MaxAge
	}
	if opt.Questions <= 0 {
		opt.Questions = 16
	}
	if opt.Waiting <= 0 {
		opt.Waiting = 1024
	}
	if opt.Size <= 0 {
		opt.Size = 16384
	}
	s := &Store{
		source: source, opt: opt, begin: time.Now(),
		known:   places{free: make(chan struct{}, opt.Questions), most: int64(opt.Waiting)},
		strange: places{free: make(chan struct{}, opt.Questions), most: int64(opt.Waiting)},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends all questions and waits for their end.
func (s *Store) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.asking.Wait()
	if c, ok := s.source.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (s *Store) now() time.Duration { return time.Since(s.begin) }

// Lookup implements [auth.Store]. A question outlives the caller that gave rise
// to it, others may be waiting for it, too.
func (s *Store) Lookup(ctx context.Context, digest auth.Digest) (*auth.Key, error) {
	shard := s.shard(digest)
	now := s.now()
	if e := shard.keys.get(digest); e != nil {
		if a := e.answer.Load(); now-a.askedAt < MaxAge {
			s.refresh(e, digest, now, a)
			return a.key, nil
		}
		return s.wait(ctx, shard, digest, &s.known)
	}
	if e := shard.void.get(digest); e != nil && now-e.answer.Load().askedAt < MaxAge {
		return nil, auth.ErrUnknownKey
	}
	return s.wait(ctx, shard, digest, &s.strange)
}

// refresh puts the question again when an answer in use grows old.
func (s *Store) refresh(e *entry, digest auth.Digest, now time.Duration, a *answer) {
	if now-a.askedAt < refreshAge {
		return
	}
	if next := e.refreshing.Load(); int64(now) < next || !e.refreshing.CompareAndSwap(next, int64(now+refreshGap)) {
		return
	}
	s.join(s.shard(digest), digest, &s.known)
}

func (s *Store) wait(ctx context.Context, shard *shard, digest auth.Digest, places *places) (*auth.Key, error) {
	f := s.join(shard, digest, places)
	select {
	case <-f.done:
		return f.key, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, context.Cause(ctx))
	}
}

// flight is one question, shared by everybody who needs its answer.
type flight struct {
	done chan struct{} // closed when key and err are set
	key  *auth.Key
	err  error
}

var (
	errClosed = fmt.Errorf("%w: the gateway is being stopped", auth.ErrUnavailable)
	errBusy   = fmt.Errorf("%w: too many keys are asked for", auth.ErrUnavailable)
)

// join returns the question about the digest that is on its way, or puts it.
func (s *Store) join(shard *shard, digest auth.Digest, places *places) *flight {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if f := shard.flights[digest]; f != nil {
		return f
	}
	f := &flight{done: make(chan struct{})}
	if !s.start(func() { s.ask(f, shard, digest, places) }) {
		f.err = errClosed
		close(f.done)
		return f
	}
	if shard.flights == nil {
		shard.flights = map[auth.Digest]*flight{}
	}
	shard.flights[digest] = f
	return f
}

func (s *Store) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.asking.Go(f)
	return true
}

// ask puts one question and remembers the answer.
func (s *Store) ask(f *flight, shard *shard, digest auth.Digest, places *places) {
	if err := places.take(s.ctx, s.opt.Timeout); err != nil {
		shard.finish(f, digest, s.opt.Size, nil, err)
		return
	}
	defer places.leave()
	asked := s.now()
	ctx, cancel := context.WithTimeout(s.ctx, s.opt.Timeout)
	defer cancel()
	key, err := s.source.Lookup(ctx, digest)
	switch {
	case err == nil && key == nil:
		err = fmt.Errorf("%w: the store gave no answer", auth.ErrUnavailable)
	case err != nil && !errors.Is(err, auth.ErrUnknownKey) && !errors.Is(err, auth.ErrUnavailable):
		err = fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	if err == nil || errors.Is(err, auth.ErrUnknownKey) {
		if s.now()-asked >= MaxAge {
			err = fmt.Errorf("%w: the answer came too late", auth.ErrUnavailable)
		}
	}
	shard.finish(f, digest, s.opt.Size, &answer{key, asked}, err)
}
