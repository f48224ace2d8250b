package handlers

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// History is what operators are shown of the past: how streams have ended, minute by
// minute, the last failures, and the calls that took long. All of it is bounded, lives
// in memory, and is for looking: metrics and logs are what to build on.
//
// A call that ends well and soon costs it nothing.
type History struct {
	mu       sync.Mutex
	minutes  [historyMinutes]minute
	failures pastFailures
	slow     lastOf[slowCall]
}

const (
	// historyMinutes is how far ends go back.
	historyMinutes = 60
	// historyFailures and historySlow are how many of them are kept.
	historyFailures = 200
	historySlow     = 512
	// longCall is how long a call takes that is remembered as slow. Streams are none.
	longCall = time.Second
	// slowestSandboxes is how many are shown.
	slowestSandboxes = 20
	// maxWhy is the longest PastFailure.Why, in bytes.
	maxWhy = 300
)

// The longest method and operation that are written down, in bytes. A client chooses
// both, and the request line that it sends may be as long as the server allows: some
// kilobytes with Caddy's defaults.
const (
	MaxMethod    = 32
	MaxOperation = 200
)

// Clip is the beginning of s, of that many bytes at most. It is valid UTF-8 if s is.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// kept is Clip in memory of its own: what is cut out of a request holds all of the line
// that it was in for as long as it lives.
func kept(s string, most int) string { return strings.Clone(Clip(s, most)) }

// lastOf keeps the last of what it is given.
type lastOf[T any] struct {
	kept []T
	next int
}

func (r *lastOf[T]) add(v T, most int) {
	if len(r.kept) < most {
		r.straighten()
		r.kept = append(r.kept, v)
		return
	}
	r.kept[r.next] = v
	r.next = (r.next + 1) % most
}

// latest are what is kept, the last one first.
func (r *lastOf[T]) latest() []T {
	all := append(slices.Clone(r.kept[r.next:]), r.kept[:r.next]...)
	slices.Reverse(all)
	return all
}

// drop forgets the first of them.
func (r *lastOf[T]) drop() {
	r.straighten()
	r.kept = slices.Delete(r.kept, 0, 1)
}

// straighten puts the first in front.
func (r *lastOf[T]) straighten() {
	if r.next != 0 {
		r.kept = append(slices.Clone(r.kept[r.next:]), r.kept[:r.next]...)
		r.next = 0
	}
}

// pastFailures are the last failures. Where there is no room the first of the cause that
// has most goes: who floods a gateway with what fails hides nothing else by it.
type pastFailures struct {
	of    [cause.Count]lastOf[PastFailure]
	count int
}

func (p *pastFailures) add(f PastFailure, why cause.Cause) {
	own := &p.of[why]
	most := own
	for i := range p.of {
		if len(p.of[i].kept) > len(most.kept) {
			most = &p.of[i]
		}
	}
	switch {
	case p.count < historyFailures:
		p.count++
	case most == own:
		own.add(f, len(own.kept))
		return
	default:
		most.drop()
	}
	own.add(f, len(own.kept)+1)
}

// latest are all, the last one first.
func (p *pastFailures) latest() []PastFailure {
	all := make([]PastFailure, 0, p.count)
	for i := range p.of {
		all = append(all, p.of[i].latest()...)
	}
	slices.SortStableFunc(all, func(a, b PastFailure) int { return b.Time.Compare(a.Time) })
	return all
}

// minute is how streams have ended in one minute of Unix time.
type minute struct {
	of   int64
	ends map[cause.Cause]int
}

// PastFailure is a request that did not end well. It holds no secret.
type PastFailure struct {
	Time      time.Time `json:"time"`
	Cause     string    `json:"cause"`
	SandboxID string    `json:"sandbox_id,omitempty"`
	Subject   string    `json:"subject,omitempty"`
	Cluster   string    `json:"cluster,omitempty"`
	Plane     string    `json:"plane"`
	Operation string    `json:"operation"`
	Method    string    `json:"method"`
	Client    string    `json:"client"`
	// Upstream is the "host:port" that was sent the request, or "".
	Upstream string `json:"upstream,omitempty"`
	// RequestID is what the log calls the request.
	RequestID string `json:"request_id,omitempty"`
	// Why is the error behind it, cut to 300 bytes.
	Why string `json:"why,omitempty"`
}

type slowCall struct {
	at                            time.Time
	sandboxID, cluster, operation string
	took                          time.Duration
}

// SlowSandbox is a sandbox of which calls took more than a second, in the last hour and
// among the last 512 of all sandboxes. Streams are none of them.
type SlowSandbox struct {
	SandboxID string `json:"sandbox_id"`
	Cluster   string `json:"cluster"`
	Calls     int    `json:"calls"`
	// Slowest is how long the slowest took, in seconds, and Operation which call it was.
	Slowest   float64   `json:"slowest_seconds"`
	Operation string    `json:"operation"`
	Last      time.Time `json:"last"`
}

// EndsOfMinute is how many streams have ended in a minute, by cause.
type EndsOfMinute struct {
	Minute time.Time      `json:"minute"`
	Ends   map[string]int `json:"ends"`
}

// Past is a copy of a History.
type Past struct {
	// StreamEnds are the minutes of the last hour in which a stream ended, the oldest first.
	StreamEnds []EndsOfMinute `json:"stream_ends"`
	// Failures are the last 200, the last one first; of causes that have many, fewer. A
	// client that left is none.
	Failures []PastFailure `json:"failures"`
	// Slowest are the 20 sandboxes with the slowest calls.
	Slowest []SlowSandbox `json:"slowest"`
}

// Note takes note of how a request ended. It costs a comparison for one that ended well
// and was no stream.
func (h *History) Note(r *http.Request, out *Outcome) {
	if out.End == cause.OK && !out.Stream {
		return
	}
	now := time.Now()
	failed := out.End != cause.OK && out.End != cause.ClientGone
	var f PastFailure
	if failed {
		f = failureOf(r, out, now)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if out.Stream {
		h.ended(now, out.End)
	}
	if failed {
		h.failures.add(f, out.End)
	}
}

// failureOf writes down a failure.
func failureOf(r *http.Request, out *Outcome, now time.Time) PastFailure {
	f := PastFailure{
		Time: now.UTC(), Cause: out.End.String(), SandboxID: strings.Clone(out.SandboxID), Subject: strings.Clone(out.Subject), Cluster: out.Cluster,
		Plane: out.Operation.Plane.String(), Operation: kept(out.Operation.Name, MaxOperation), Method: kept(r.Method, MaxMethod), Client: r.RemoteAddr,
		Upstream: out.Upstream,
	}
	if out.Trail != nil {
		f.RequestID = strings.Clone(out.Trail.RequestID)
	}
	if out.Err != nil {
		f.Why = kept(out.Err.Error(), maxWhy)
	}
	return f
}

// ended counts the end of a stream. h.mu is held.
func (h *History) ended(now time.Time, why cause.Cause) {
	of := now.Unix() / 60
	m := &h.minutes[of%historyMinutes]
	if m.of != of || m.ends == nil {
		m.of, m.ends = of, map[cause.Cause]int{}
	}
	m.ends[why]++
}

// lasted is told of a call that was no stream and took longer than most. h may be nil.
func (h *History) lasted(out *Outcome, begun time.Time) {
	if h == nil {
		return
	}
	now := time.Now()
	took := now.Sub(begun)
	if took < longCall {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow.add(slowCall{now, strings.Clone(out.SandboxID), out.Cluster, kept(out.Operation.Name, MaxOperation), took}, historySlow)
}

// Past is what is remembered at the moment.
func (h *History) Past() Past {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	p := Past{StreamEnds: []EndsOfMinute{}, Failures: append([]PastFailure{}, h.failures.latest()...), Slowest: h.slowest(now)}
	for of := now.Unix()/60 - historyMinutes + 1; of <= now.Unix()/60; of++ {
		m := &h.minutes[of%historyMinutes]
		if m.of != of {
			continue
		}
		ends := make(map[string]int, len(m.ends))
		for why, n := range m.ends {
			ends[why.String()] = n
		}
		p.StreamEnds = append(p.StreamEnds, EndsOfMinute{time.Unix(of*60, 0).UTC(), ends})
	}
	return p
}

// slowest are the sandboxes with the slowest calls. h.mu is held.
func (h *History) slowest(now time.Time) []SlowSandbox {
	by := map[string]*SlowSandbox{}
	for _, c := range h.slow.latest() {
		if now.Sub(c.at) > historyMinutes*time.Minute {
			break
		}
		s := by[c.sandboxID]
		if s == nil {
			s = &SlowSandbox{SandboxID: c.sandboxID, Cluster: c.cluster, Last: c.at.UTC()}
			by[c.sandboxID] = s
		}
		s.Calls++
		if took := c.took.Seconds(); took > s.Slowest {
			s.Slowest, s.Operation = took, c.operation
		}
	}
	list := make([]SlowSandbox, 0, len(by))
	for _, s := range by {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b SlowSandbox) int {
		return cmp.Or(cmp.Compare(b.Slowest, a.Slowest), cmp.Compare(a.SandboxID, b.SandboxID))
	})
	return list[:min(len(list), slowestSandboxes)]
}
