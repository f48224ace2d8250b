package h1

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// continueWait is how long a body waits to be asked for. Then it is sent all the
	// same (RFC 9110 section 10.1.1 allows both).
	continueWait = time.Second
	// lastWriteWait is how long the end of an answer waits for the last write of its
	// request, so that the connection can be used again. Mostly the other side has
	// it already.
	lastWriteWait = 50 * time.Millisecond
)

var errNotAskedFor = errors.New("the body was not asked for")

// sending is what is written of a request while its answer may come: what the kernel
// did not take at once, and a body that is not in memory. It has a goroutine, which
// ends when all is sent or nothing more can be.
type sending struct {
	conn *conn
	m    *message
	rest []byte        // of the message's wire
	ask  chan bool     // whether to send a body that waits to be asked for; nil for any other
	quit chan struct{} // closed when nothing more is to be sent
	over chan struct{} // closed when the goroutine has ended
	last atomic.Bool   // what is being written is all that is left
	done atomic.Bool   // all was sent

	mu  sync.Mutex // held while it writes
	err error      // why not all was sent
}

// send sends the rest of a message, of whose wire n bytes were written.
func send(c *conn, m *message, n int) *sending {
	s := &sending{conn: c, m: m, rest: (*m.wire)[n:], quit: make(chan struct{}), over: make(chan struct{})}
	if m.body != nil && expectsContinue(m.req) {
		s.ask = make(chan bool, 1)
	}
	go s.run()
	return s
}

func (s *sending) run() {
	defer close(s.over)
	err := s.all()
	if closeErr := s.m.drop(); err == nil && closeErr != nil {
		err = &bodyError{closeErr}
	}
	if err == nil {
		s.done.Store(true)
		return
	}
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	if err != errNotAskedFor && !closedByPeer(err) {
		s.conn.Cut() // nobody would answer what will never be whole
	}
}

func (s *sending) all() error {
	s.last.Store(s.m.body == nil)
	if len(s.rest) > 0 {
		if err := s.write(s.rest); err != nil {
			return err
		}
	}
	s.rest = nil
	s.m.free()
	if s.m.body == nil {
		return nil
	}
	if s.ask != nil && !s.askedFor() {
		return errNotAskedFor
	}
	return s.copy()
}

// askedFor waits until it is known whether the body is to be sent.
func (s *sending) askedFor() bool {
	wait := time.NewTimer(continueWait)
	defer wait.Stop()
	select {
	case yes := <-s.ask:
		return yes
	case <-wait.C:
		return true
	case <-s.quit:
		return false
	}
}

// answered tells a body that waits to be asked for whether it is.
func (s *sending) answered(wanted bool) {
	select {
	case s.ask <- wanted:
	default: // it does not wait, or was told before
	}
}

func (s *sending) write(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Write(p)
	if err != nil {
		s.err = err
	}
	return err
}

// abandon is called once, when the connection is closed or the answer is over. It
// does not wait for the goroutine: that may read from somebody who is silent.
func (s *sending) abandon() { close(s.quit) }

// whole reports that all was sent. It waits for the last write, a little.
func (s *sending) whole() bool {
	if s.done.Load() || !s.last.Load() {
		return s.done.Load()
	}
	wait := time.NewTimer(lastWriteWait)
	defer wait.Stop()
	select {
	case <-s.over:
	case <-wait.C:
	}
	return s.done.Load()
}

// why is why not all was sent, or nil. The connection must be closed, so that a write
// that goes on has ended soon.
func (s *sending) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
