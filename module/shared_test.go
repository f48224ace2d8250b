package module

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// part is something shared that knows whether it is there.
type part struct{ alive *atomic.Int32 }

func (p part) Destruct() error {
	p.alive.Add(-1)
	return nil
}

// sharedPart is a shared whose live holds one part of a pool.
func sharedPart(pool *caddy.UsagePool, alive *atomic.Int32) *shared {
	return newShared(func() (*live, error) {
		l := new(live)
		_, err := lease(&l.parts, pool, "key", func() (part, error) {
			alive.Add(1)
			return part{alive}, nil
		})
		return l, err
	})
}

func TestPartsStayUntilTheLastUserIsGone(t *testing.T) {
	var alive atomic.Int32
	s := sharedPart(caddy.NewUsagePool(), &alive)
	acquire(t, s)
	acquire(t, s)
	s.release()
	if alive.Load() != 1 {
		t.Fatal("the part is gone although it is in use")
	}
	s.release()
	if alive.Load() != 0 {
		t.Fatal("the part stayed although nobody uses it")
	}
}

func TestPartsComeBackForALateRequest(t *testing.T) {
	var alive atomic.Int32
	s := sharedPart(caddy.NewUsagePool(), &alive)
	acquire(t, s)
	s.release()
	acquire(t, s)
	if alive.Load() != 1 {
		t.Fatal("a late request has nothing to work with")
	}
	s.release()
	if alive.Load() != 0 {
		t.Fatal("what a late request brought back stayed")
	}
}

func TestTwoConfigsShareAPart(t *testing.T) {
	var alive atomic.Int32
	pool := caddy.NewUsagePool()
	old, next := sharedPart(pool, &alive), sharedPart(pool, &alive)
	acquire(t, old)
	acquire(t, next)
	if alive.Load() != 1 {
		t.Fatalf("%d parts were made", alive.Load())
	}
	old.release()
	if alive.Load() != 1 {
		t.Fatal("the old config took the part away from the new one")
	}
	next.release()
	if alive.Load() != 0 {
		t.Fatal("the part stayed")
	}
}

func TestManyUsersAtOnceNeverSeeAPartThatIsGone(t *testing.T) {
	var alive atomic.Int32
	s := sharedPart(caddy.NewUsagePool(), &alive)
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 2000 {
				l, err := s.acquire()
				if err != nil || l == nil || len(l.parts) != 1 || alive.Load() < 1 {
					t.Errorf("acquired %+v, %v with %d alive", l, err, alive.Load())
					return
				}
				s.release()
			}
		})
	}
	users.Wait()
	if alive.Load() != 0 {
		t.Errorf("%d parts stayed", alive.Load())
	}
}

func TestAFailedBuildIsTriedAgain(t *testing.T) {
	fail := true
	s := newShared(func() (*live, error) {
		if fail {
			return nil, errors.New("not now")
		}
		return new(live), nil
	})
	if _, err := s.acquire(); err == nil {
		t.Fatal("no error")
	}
	fail = false
	acquire(t, s)
	s.release()
}

func TestCleanupOfAnAppThatWasNeverProvisioned(t *testing.T) {
	if err := new(App).Cleanup(); err != nil {
		t.Error(err)
	}
}

func acquire(t *testing.T, s *shared) {
	t.Helper()
	if _, err := s.acquire(); err != nil {
		t.Fatal(err)
	}
}
