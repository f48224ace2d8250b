package handlers

import (
	"net/http"
	"sync"
)

// Silence takes the timeouts off a request that the server in front has for silence: a
// program in a sandbox, and whoever talks to it, may be silent for as long as they like.
// That of a call's client is bounded by Options.ClientStall, that of a sandbox by
// Options.UpstreamIdle. Each is asked for once for a request, if at all: most calls are
// over too soon for either.
type Silence interface {
	// OfReader does so for the request's body, and OfWriter for the answer, until
	// restore is called. OfReader may be called while the body is being read.
	OfReader(r *http.Request) (restore func())
	OfWriter(r *http.Request) (restore func())
}

// silence is what was taken off a call.
type silence struct {
	allow Silence // nil: there is nothing to take off

	mu             sync.Mutex
	over           bool // the call is
	whole          bool // the request's body was read
	reader, writer func()
}

// ofReader lets the client's side of the request be silent.
func (s *silence) ofReader(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allow != nil && s.reader == nil && !s.over && !s.whole {
		s.reader = s.allow.OfReader(r)
	}
}

// ofNoReader says that nothing is left to read of the request's body.
func (s *silence) ofNoReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = true
}

// ofBoth is ofReader, and lets the answer be silent, too. It is for whoever writes the
// answer.
func (s *silence) ofBoth(r *http.Request) {
	s.ofReader(r)
	if s.allow != nil && s.writer == nil {
		s.writer = s.allow.OfWriter(r)
	}
}

// end puts everything back.
func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.reader != nil {
		s.reader()
	}
	if s.writer != nil {
		s.writer()
	}
}
