package rock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"sync"
	"time"
)

// Request is one entry of the log.
type Request struct {
	Time    time.Time
	Role    Role
	Address string // the server's, "ip:port"
	Remote  string
	Sandbox string // see Match.Sandbox
	Method  string
	Path    string // decoded
	// Target is the request target exactly as it stood in the request line.
	Target string
	Proto  string
	Host   string
	// Header with canonical names, values as received.
	Header http.Header
	// ContentLength as declared; -1 when chunked.
	ContentLength int64

	// Done tells that the answer is over; the fields below are final then.
	Done bool
	// BodyBytes and BodySHA256 (hex) cover what the handler read of the request body.
	BodyBytes  int64
	BodySHA256 string
	Status     int   // 0: cut before the headers
	Sent       int64 // bytes of response body
}

// Log keeps the last requests. Safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	size    int
	entries []*logged
	changed chan struct{} // closed and replaced at every change
}

type logged struct {
	log  *Log
	req  Request
	hash hash.Hash
}

func newLog(size int) *Log { return &Log{size: size, changed: make(chan struct{})} }

func (l *Log) touch() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Log) begin(x *exchange, r *http.Request) *logged {
	e := &logged{log: l, hash: sha256.New(), req: Request{
		Time: time.Now(), Role: x.role, Address: x.addr, Remote: r.RemoteAddr, Sandbox: x.sandbox, Method: r.Method, Path: x.path, Target: r.RequestURI,
		Proto: r.Proto, Host: r.Host, Header: r.Header.Clone(), ContentLength: r.ContentLength,
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= l.size {
		l.entries = append(l.entries[:0], l.entries[len(l.entries)-l.size+1:]...)
	}
	l.entries = append(l.entries, e)
	l.touch()
	return e
}

func (e *logged) finish(status int, sent int64) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	e.req.Done, e.req.Status, e.req.Sent = true, status, sent
	e.req.BodySHA256 = hex.EncodeToString(e.hash.Sum(nil))
	e.log.touch()
}

func (e *logged) body(r io.ReadCloser) io.ReadCloser { return &countedBody{ReadCloser: r, entry: e} }

type countedBody struct {
	io.ReadCloser
	entry *logged
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.entry.log.mu.Lock()
	if !b.entry.req.Done {
		b.entry.hash.Write(p[:n])
		b.entry.req.BodyBytes += int64(n)
	}
	b.entry.log.mu.Unlock()
	return n, err
}

// Requests returns copies of the entries that match, oldest first.
func (l *Log) Requests(m Match) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rs []Request
	for _, e := range l.entries {
		user, _, _ := (&http.Request{Header: e.req.Header}).BasicAuth()
		x := &exchange{role: e.req.Role, addr: e.req.Address, sandbox: e.req.Sandbox, method: e.req.Method, path: e.req.Path, user: user}
		if m.matches(x) {
			rs = append(rs, e.req)
		}
	}
	return rs
}

// Await waits until n requests match and have ended, and returns them. Error: ctx's.
func (l *Log) Await(ctx context.Context, m Match, n int) ([]Request, error) {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		var done []Request
		for _, r := range l.Requests(m) {
			if r.Done {
				done = append(done, r)
			}
		}
		if len(done) >= n {
			return done, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return done, ctx.Err()
		}
	}
}

// Reset forgets all entries.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
	l.touch()
}
