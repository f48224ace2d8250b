package headline

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// book holds what the double has really sent for each command.
type book struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is what the double sent for one command.
type entry struct {
	// begun is closed when the double has the command, over when it has nothing more to say.
	begun, over chan struct{}

	mu     sync.Mutex
	starts int // how often the command arrived
	sent   []byte
	endAt  time.Time // when the end event was whole
	atEnd  func()    // called then, before anything else can be written; may be nil
}

func newBook() *book { return &book{entries: map[string]*entry{}} }

// of is the entry of the command with this user's name.
func (b *book) of(user string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[user]
	if e == nil {
		e = &entry{begun: make(chan struct{}), over: make(chan struct{})}
		b.entries[user] = e
	}
	return e
}

func (b *book) forget(user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, user)
}

// serve is the double's envd with the book beside it.
func (b *book) serve(s *rock.Sandbox) http.Handler {
	box, err := s.Box()
	if err != nil {
		return http.NotFoundHandler()
	}
	h, err := envd.New(envd.Options{Box: box})
	if err != nil {
		return http.NotFoundHandler()
	}
	return &bookkeeper{Handler: h, book: b}
}

type bookkeeper struct {
	*envd.Handler
	book *book
}

var _ io.Closer = (*bookkeeper)(nil)

func (k *bookkeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth()
	if r.URL.Path != startPath || user == "" {
		k.Handler.ServeHTTP(w, r)
		return
	}
	e := k.book.of(user)
	e.mu.Lock()
	e.starts++
	first := e.starts == 1
	e.mu.Unlock()
	if !first {
		k.Handler.ServeHTTP(w, r)
		return
	}
	close(e.begun)
	defer close(e.over)
	k.Handler.ServeHTTP(&copying{w, e}, r)
}

const startPath = "/process.Process/Start"

// copying keeps a copy of what was really written.
type copying struct {
	http.ResponseWriter
	entry *entry
}

// Unwrap lets http.ResponseController find Flush.
func (c *copying) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Flush implements http.Flusher.
func (c *copying) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// Write implements http.ResponseWriter. The double tells how much of a piece it sent before a fault struck.
func (c *copying) Write(p []byte) (int, error) {
	// Taken first: the moment at which the client may have it, at the earliest.
	now := time.Now()
	n, err := c.ResponseWriter.Write(p)
	if c.entry.add(p[:n], now) {
		c.entry.atEnd()
	}
	return n, err
}

// add takes down what was sent and reports whether atEnd is to be called.
func (e *entry) add(p []byte, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent = append(e.sent, p...)
	if !e.endAt.IsZero() || !read(e.sent).ended {
		return false
	}
	e.endAt = now
	return e.atEnd != nil
}

// sent is what a stream's bytes say.
type sent struct {
	ended  bool // the end event was whole
	within bool // the bytes end inside an envelope
}

func read(body []byte) (s sent) {
	const prefix = 5
	for len(body) >= prefix {
		size := prefix + int(binary.BigEndian.Uint32(body[1:prefix]))
		if len(body) < size {
			break
		}
		const endStream = 2
		if body[0]&endStream == 0 && bytes.Contains(body[prefix:size], []byte(`"end":`)) {
			s.ended = true
		}
		body = body[size:]
	}
	s.within = len(body) > 0
	return s
}
