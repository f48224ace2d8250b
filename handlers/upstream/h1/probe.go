package h1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// probeWait is how long the first byte of a body may take whose request would
// rather have none.
const probeWait = 200 * time.Millisecond

// usuallyWithoutBody reports a method whose requests mostly have no body. What
// nobody knows the length of may be nothing then, and servers are known that are
// confused by no chunk: net/http's HTTP/2 gives such bodies to requests that end
// in a frame of their own.
func usuallyWithoutBody(r *http.Request) bool {
	if len(r.TransferEncoding) > 0 {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions, "PROPFIND", "SEARCH":
		return true
	}
	return false
}

// probe finds out whether there is a body at all. One that takes its time is taken
// for one. The goroutines end with the read of the body.
func (m *message) probe() error {
	body := &probedBody{ReadCloser: m.body, first: make(chan piece, 1)}
	go func() {
		var p piece
		p.n, p.err = body.ReadCloser.Read(p.b[:])
		body.first <- p
	}()
	wait := time.NewTimer(probeWait)
	defer wait.Stop()
	m.body = body
	select {
	case p := <-body.first:
		if p.n > 0 || p.err != io.EOF {
			body.first <- p
			return nil
		}
		m.body, m.length, m.trailer = nil, 0, nil
		if err := body.Close(); err != nil {
			return &bodyError{err}
		}
	case <-wait.C:
	case <-m.req.Context().Done():
		m.body = nil
		go func() { <-body.first; body.Close() }() // a body that is being read may not let itself be closed
		return &bodyError{context.Cause(m.req.Context())}
	}
	return nil
}

type piece struct {
	b   [1]byte
	n   int
	err error
}

// probedBody is a body of which the first byte was asked for.
type probedBody struct {
	io.ReadCloser
	first chan piece
	taken bool
}

func (b *probedBody) Read(p []byte) (int, error) {
	if b.taken {
		return b.ReadCloser.Read(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	b.taken = true
	first := <-b.first
	return copy(p, first.b[:first.n]), first.err
}

// bodyError is a failure of the caller's own body.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "reading the body of the request: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

var (
	errBodyLength = errors.New("it is not as long as was said")
	errBodyBegun  = errors.New("it was begun, and nobody took it")
)
