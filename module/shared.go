package module

import (
	"sync"
	"sync/atomic"
)

// shared is a reference-counted *live that can come back: Caddy cleans a config
// up while requests of it are running and even before the last of them has
// arrived, on a connection that the old server is still draining.
//
// While somebody holds it, a further acquire and its release are one atomic
// operation each.
type shared struct {
	build func() (*live, error)

	refs atomic.Int64 // > 0: live is set
	mu   sync.Mutex   // held to go from and to refs == 0
	live *live
}

func newShared(build func() (*live, error)) *shared { return &shared{build: build} }

// acquire returns the live parts, which stay until release is called.
func (s *shared) acquire() (*live, error) {
	if live, ok := s.borrow(); ok {
		return live, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		live, err := s.build()
		if err != nil {
			return nil, err
		}
		s.live = live
	}
	// Whoever brought refs to 0 waits for mu and will see that it is not.
	s.refs.Add(1)
	return s.live, nil
}

// borrow is acquire for who only looks: it brings nothing back, and reports false when
// nobody has the parts.
func (s *shared) borrow() (*live, bool) {
	for n := s.refs.Load(); n > 0; n = s.refs.Load() {
		if s.refs.CompareAndSwap(n, n+1) {
			return s.live, true
		}
	}
	return nil, false
}

// release gives one acquire back. The last one gives up the parts.
func (s *shared) release() {
	if s.refs.Add(-1) > 0 {
		return
	}
	s.mu.Lock()
	var last *live
	if s.refs.Load() == 0 {
		last, s.live = s.live, nil
	}
	s.mu.Unlock()
	if last != nil {
		last.close()
	}
}
