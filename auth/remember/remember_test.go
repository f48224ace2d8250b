package remember

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a store whose answers a test sets.
type source struct {
	mu     sync.Mutex
	keys   map[auth.Digest]*auth.Key
	broken error
	slow   time.Duration
	asked  int
	atOnce int
	most   int
	closed bool
}

func (s *source) Lookup(ctx context.Context, digest auth.Digest) (*auth.Key, error) {
	s.mu.Lock()
	s.asked++
	s.atOnce++
	s.most = max(s.most, s.atOnce)
	// The answer is what is true when the question is put.
	key, err, slow := s.keys[digest], s.broken, s.slow
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.atOnce--; s.mu.Unlock() }()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, auth.ErrUnknownKey
	}
	return key, nil
}

func (s *source) Close() error { s.closed = true; return nil }

func (s *source) set(change func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func digest(n int) (d auth.Digest) {
	binary.BigEndian.PutUint64(d[8:], uint64(n))
	d[0] = byte(n)
	return d
}

// inBubble runs a test with a source that knows key 1, in synctest's time.
func inBubble(t *testing.T, opt Options, test func(t *testing.T, src *source, s *Store)) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{keys: map[auth.Digest]*auth.Key{digest(1): {Digest: digest(1), Subject: "alice"}}}
		s := New(src, opt)
		test(t, src, s)
		if err := s.Close(); err != nil || !src.closed {
			t.Errorf("closing: %v, source closed: %v", err, src.closed)
		}
	})
}

func want(t *testing.T, s *Store, n int, want error) {
	t.Helper()
	key, err := s.Lookup(context.Background(), digest(n))
	if !errors.Is(err, want) || (err == nil) != (key != nil) {
		t.Errorf("key %d: got %v, %v, want %v", n, key, err, want)
	}
}

func TestARevokedKeyIsVoidWithinASecondHoweverOftenItIsUsed(t *testing.T) {
	for _, gap := range []time.Duration{time.Millisecond, 250 * time.Millisecond, 700 * time.Millisecond} {
		for _, slow := range []time.Duration{0, 200 * time.Millisecond, 800 * time.Millisecond} {
			inBubble(t, Options{}, func(t *testing.T, src *source, s *Store) {
				src.slow = slow
				for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(gap) {
					want(t, s, 1, nil)
				}
				src.set(func(s *source) { delete(s.keys, digest(1)) })
				revoked := time.Now()
				for time.Since(revoked) < 3*time.Second {
					_, err := s.Lookup(context.Background(), digest(1))
					if err == nil && time.Since(revoked) >= time.Second {
						t.Fatalf("used every %v, answers take %v: let in %v after it was revoked", gap, slow, time.Since(revoked))
					}
					time.Sleep(gap)
				}
			})
		}
	}
}

func TestANewKeyIsKnownWithinASecondOfBeingAskedForInVain(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, src *source, s *Store) {
		want(t, s, 2, auth.ErrUnknownKey)
		src.set(func(s *source) { s.keys[digest(2)] = &auth.Key{} })
		time.Sleep(MaxAge)
		want(t, s, 2, nil)
	})
}

func TestABusyKeyNeverWaitsForAStoreThatAnswersInLessThanHalfOfMaxAge(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, src *source, s *Store) {
		want(t, s, 1, nil)
		src.set(func(s *source) { s.slow = MaxAge/2 - 10*time.Millisecond })
		for range 5000 {
			before := time.Now()
			want(t, s, 1, nil)
			if waited := time.Since(before); waited > 0 {
				t.Fatalf("waited %v", waited)
			}
			time.Sleep(time.Millisecond)
		}
		if n := src.count(); n > 15 {
			t.Errorf("%d questions in 5s", n)
		}
	})
}

func TestManyWhoAskTheSameArePutAsOneQuestion(t *testing.T) {
	for name, n := range map[string]int{"a key": 1, "no key": 2} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, src *source, s *Store) {
				src.slow = 100 * time.Millisecond
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() { _, _ = s.Lookup(context.Background(), digest(n)) })
				}
				all.Wait()
				_, _ = s.Lookup(context.Background(), digest(n))
				if got := src.count(); got != 1 {
					t.Errorf("%d questions", got)
				}
			})
		})
	}
}

func TestAStoreThatFailsLetsNobodyInAfterASecond(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, src *source, s *Store) {
		want(t, s, 1, nil)
		src.set(func(s *source) { s.broken = errors.New("refused") })
		time.Sleep(MaxAge - 1)
		want(t, s, 1, nil)
		time.Sleep(time.Millisecond)
		want(t, s, 1, auth.ErrUnavailable)
		want(t, s, 2, auth.ErrUnavailable)
		src.set(func(s *source) { s.broken = nil })
		want(t, s, 1, nil)
		want(t, s, 2, auth.ErrUnknownKey)
	})
}

func TestAStoreThatHangsIsUnavailableInTime(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, src *source, s *Store) {
		src.slow = time.Hour
		before := time.Now()
		want(t, s, 1, auth.ErrUnavailable)
		if took := time.Since(before); took > MaxAge {
			t.Errorf("took %v", took)
		}
	})
}

func TestACallerWhoLeavesIsNotKept(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, src *source, s *Store) {
		src.slow = 500 * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := s.Lookup(ctx, digest(1)); !errors.Is(err, auth.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		want(t, s, 1, nil) // the question went on
		if n := src.count(); n != 1 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestMadeUpKeysDisplaceNoRealOnes(t *testing.T) {
	inBubble(t, Options{Size: 512}, func(t *testing.T, src *source, s *Store) {
		want(t, s, 1, nil)
		for n := 2; n < 10000; n++ {
			want(t, s, n, auth.ErrUnknownKey)
		}
		before := src.count()
		want(t, s, 1, nil)
		if src.count() != before {
			t.Error("the key was forgotten")
		}
		remembered := 0
		for i := range s.shards {
			remembered += len(s.shards[i].void.load())
		}
		if remembered > 512 {
			t.Errorf("%d digests are remembered", remembered)
		}
	})
}

func TestMadeUpKeysNeitherFloodTheStoreNorKeepKnownKeysOut(t *testing.T) {
	inBubble(t, Options{Questions: 4, Waiting: 100}, func(t *testing.T, src *source, s *Store) {
		want(t, s, 1, nil)
		time.Sleep(2 * MaxAge) // it is known, but has to be asked about
		src.set(func(s *source) { s.slow = 100 * time.Millisecond })
		var all sync.WaitGroup
		for n := 2; n < 5000; n++ {
			all.Go(func() { _, _ = s.Lookup(context.Background(), digest(n)) })
		}
		synctest.Wait()
		before := time.Now()
		want(t, s, 1, nil)
		if took := time.Since(before); took > 100*time.Millisecond {
			t.Errorf("the known key waited %v", took)
		}
		all.Wait()
		if src.most > 5 {
			t.Errorf("%d questions at a time", src.most)
		}
		if n := src.count(); n > 110 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestAClosedStoreLetsNobodyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{slow: time.Hour}
		s := New(src, Options{})
		go func() {
			if _, err := s.Lookup(context.Background(), digest(1)); !errors.Is(err, auth.ErrUnavailable) {
				t.Errorf("a question in progress: %v", err)
			}
		}()
		synctest.Wait()
		_ = s.Close()
		want(t, s, 2, auth.ErrUnavailable)
		synctest.Wait()
	})
}

func TestLookingUpWhatIsRememberedAllocatesNothing(t *testing.T) {
	src := &source{keys: map[auth.Digest]*auth.Key{digest(1): {}}}
	s := New(src, Options{})
	defer s.Close()
	// Time does not stand still outside a bubble: a refresh may allocate now and then, a lookup does not.
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { _, _ = s.Lookup(ctx, digest(1)) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	src := &source{keys: map[auth.Digest]*auth.Key{digest(1): {}}}
	s := New(src, Options{})
	defer s.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = s.Lookup(context.Background(), digest(1))
		}
	})
}
