package rock

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is what a fault does to an answer.
type Kind string

// Kinds of fault. All but Delay, Lie and AnswerWith end the exchange.
const (
	// Reset sends RST after the bytes before At have reached the peer's kernel.
	Reset Kind = "reset"
	// Close sends FIN without the final chunk and closes.
	Close Kind = "close"
	// HalfClose sends FIN without the final chunk and keeps reading until the peer leaves.
	HalfClose Kind = "half-close"
	// Silence sends nothing more and keeps the connection open until the peer leaves, the faults are cleared or the server closes.
	Silence Kind = "silence"
	// CleanEnd ends the HTTP body correctly, whatever the handler still had to say (such as EndStream).
	CleanEnd Kind = "clean-end"
	// Delay waits Wait before the byte At goes out, and again every Every bytes when Every > 0.
	Delay Kind = "delay"
	// Lie declares a Content-Length that is Add bytes off; see Fault.Add.
	Lie Kind = "lie"
	// AnswerWith sends Fault.Answer in place of the handler's answer. Only with At = BeforeHandler or BeforeHeaders.
	AnswerWith Kind = "answer"
)

// Places before the first byte of the response body.
const (
	// BeforeHandler: nothing was done, no byte was sent.
	BeforeHandler int64 = -2
	// BeforeHeaders: the handler has done its work up to its answer's first byte, none of which was sent.
	BeforeHeaders int64 = -1
)

// Match selects exchanges; empty fields match everything.
type Match struct {
	Role Role
	// Address is the server's "ip:port".
	Address string
	// Sandbox is the id from E2b-Sandbox-Id, /sandboxes/{id} or ?sandbox_id=.
	Sandbox string
	Method  string
	// Path is a prefix of the decoded path.
	Path string
	// User is the OS user that the client names in Authorization (Basic): a caller of commands.run can mark one command of many by it.
	User string
}

func (m Match) matches(x *exchange) bool {
	return (m.Role == "" || m.Role == x.role) && (m.Address == "" || m.Address == x.addr) &&
		(m.Sandbox == "" || m.Sandbox == x.sandbox) && (m.Method == "" || m.Method == x.method) &&
		(m.User == "" || m.User == x.user) && strings.HasPrefix(x.path, m.Path)
}

// Fault is one thing that goes wrong.
type Fault struct {
	Match
	Kind Kind
	// At counts bytes of the response body as the handler wrote it (without chunk framing): the fault strikes when exactly At bytes
	// have gone out. BeforeHandler and BeforeHeaders are earlier. Zero: headers sent, no body yet. A body that ends before At escapes.
	At int64
	// Times the fault strikes. Default (0): every time.
	Times int64
	// Wait is Delay's duration.
	Wait time.Duration
	// Every repeats a Delay after that many further bytes.
	Every int64
	// Add is Lie's error: declared = the handler's Content-Length + Add. When the handler declares none (a stream), Add itself is
	// declared instead of chunking. Too large a declaration ends in a short body, too small a one in stray bytes after it.
	Add int64
	// Answer of AnswerWith.
	Answer Answer
}

// Answer is a whole HTTP answer.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Armed is a fault in the switchboard.
type Armed struct {
	fault Fault
	left  atomic.Int64 // strikes left when Times > 0
	fired atomic.Int64
	off   atomic.Bool
}

// Fired counts the strikes.
func (a *Armed) Fired() int64 { return a.fired.Load() }

// Disarm keeps the fault from striking again.
func (a *Armed) Disarm() { a.off.Store(true) }

// take claims one strike.
func (a *Armed) take() bool {
	if a.off.Load() {
		return false
	}
	if a.fault.Times > 0 && a.left.Add(-1) < 0 {
		return false
	}
	a.fired.Add(1)
	return true
}

// Faults is the switchboard of a cluster's servers. Safe for concurrent use.
type Faults struct {
	mu      sync.Mutex
	armed   []*Armed
	live    map[*exchange]struct{}
	release chan struct{} // closed by Clear
}

func newFaults() *Faults {
	return &Faults{live: make(map[*exchange]struct{}), release: make(chan struct{})}
}

// Add arms f for requests that begin from now on.
func (f *Faults) Add(fault Fault) *Armed {
	a := &Armed{fault: fault}
	a.left.Store(fault.Times)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = append(f.armed, a)
	return a
}

// Clear disarms everything and lets silent exchanges go: they are closed without a further byte.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.armed {
		a.Disarm()
	}
	f.armed = nil
	close(f.release)
	f.release = make(chan struct{})
}

// Fire ends every exchange that is running now and matches, and tells how many. Kinds: Reset, Close, HalfClose, Silence, CleanEnd.
func (f *Faults) Fire(m Match, k Kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for x := range f.live {
		if m.matches(x) && x.cutNow(k) {
			n++
		}
	}
	return n
}

// Live counts the exchanges that are running now and match.
func (f *Faults) Live(m Match) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for x := range f.live {
		if m.matches(x) {
			n++
		}
	}
	return n
}

// enter registers an exchange and hands it the faults that concern it.
func (f *Faults) enter(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[x] = struct{}{}
	x.release = f.release
	for _, a := range f.armed {
		if a.fault.matches(x) && !a.off.Load() {
			x.faults = append(x.faults, &pendingFault{armed: a, at: a.fault.At})
		}
	}
	f.armed = slices.DeleteFunc(f.armed, func(a *Armed) bool { return a.off.Load() })
}

func (f *Faults) leave(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, x)
}

// Traceback is the answer of an unhandled exception in ROCK: HTTP 500 with a Python traceback as its body.
func Traceback() Answer {
	return Answer{Status: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: traceback}
}

const traceback = `Traceback (most recent call last):
  File "/app/rock/admin/main.py", line 301, in dispatch
    response = await call_next(request)
  File "/usr/lib/python3.11/asyncio/tasks.py", line 479, in wait_for
    return fut.result()
ConnectionError: Error 111 connecting to 10.20.30.40:6379. Connection refused.
`

// Failed is the answer of ROCK's native routes to any failure: HTTP 200 with a failure envelope.
func Failed(message, cause string) Answer {
	return Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: string(encode(map[string]any{"status": "Failed", "message": message, "error": cause, "result": nil}))}
}
