// Package limit bounds what one owner, and what is done with one sandbox, may
// take of the gateway: calls a second, creates a minute, streams at a time, bytes
// of a body.
//
// It counts in memory: no call waits for it. Gateways that serve the same
// sandboxes tell each other what they have admitted (Report, Heard), so that
// their limits hold for all of them together, within the time it takes to tell.
package limit

import (
	"fmt"
	"math"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

// Limiter holds the counters. The zero Limits bound nothing.
type Limiter struct {
	perKey, perSandbox auth.Limits
	keys, sandboxes    table
	strangers          table // by sandbox; each gateway counts its own
	others             others
	now                func() time.Time
}

// New returns a Limiter with what holds for every owner, and for every sandbox,
// that has no limits of its own.
func New(perKey, perSandbox auth.Limits) *Limiter {
	l := &Limiter{perKey: perKey, perSandbox: perSandbox, now: time.Now}
	l.keys.init()
	l.sandboxes.init()
	l.strangers.init()
	return l
}

// Who is a caller.
type Who struct {
	// Subject is the owner of the key, or of the sandbox.
	Subject string
	// Limits are the key's own.
	Limits auth.Limits
	// SandboxID is the sandbox that is used, or "".
	SandboxID string
	// Stranger is somebody who has shown nothing. What strangers do with a
	// sandbox is counted apart, so that they use up nothing of its owner's.
	Stranger bool
}

// Limit is one of the limits. Those on the length of a body or of headers are none of
// them: they are not reached by doing something too often.
type Limit uint8

// Of an API key, of a sandbox, and of a sandbox for strangers.
const (
	KeyRequests Limit = iota
	KeyCreates
	KeyStreams
	SandboxRequests
	SandboxStreams
	StrangerRequests
	StrangerStreams

	Count = int(StrangerStreams) + 1 // how many there are
)

var limitNames = [Count]string{"key_requests", "key_creates", "key_streams", "sandbox_requests", "sandbox_streams", "stranger_requests", "stranger_streams"}

// String is the limit's name in metrics.
func (l Limit) String() string { return limitNames[l] }

// of is what the limit is one of, as clients are told.
func (l Limit) of() string {
	if l <= KeyStreams {
		return "API key"
	}
	return "sandbox"
}

// Refusal is a limit that has been reached.
type Refusal struct {
	// Limit is which one.
	Limit Limit
	// Text tells the client which limit it is.
	Text string
	// After is when it is worth another try.
	After time.Duration
}

// kind is what is counted over time.
type kind uint8

const (
	requests kind = iota // a second
	creates              // a minute
	kinds
)

var per = [kinds]struct {
	unit       time.Duration
	name, text string
}{
	requests: {time.Second, "second", "requests"},
	creates:  {time.Minute, "minute", "creates"},
}

// Request counts one call, of whatever plane. Nil means that it may go on.
func (l *Limiter) Request(who Who) *Refusal {
	perSandbox := pick(0, l.perSandbox.Requests)
	if who.Stranger {
		return l.take(&l.strangers, StrangerRequests, who.SandboxID, perSandbox)
	}
	if r := l.take(&l.sandboxes, SandboxRequests, who.SandboxID, perSandbox); r != nil {
		return r
	}
	r := l.take(&l.keys, KeyRequests, who.Subject, pick(who.Limits.Requests, l.perKey.Requests))
	if r != nil && perSandbox > 0 && who.SandboxID != "" {
		l.sandboxes.giveBack(who.SandboxID, requests, l.now().UnixNano())
	}
	return r
}

// Create counts the making of one sandbox.
func (l *Limiter) Create(who Who) *Refusal {
	return l.take(&l.keys, KeyCreates, who.Subject, pick(who.Limits.Creates, l.perKey.Creates))
}

// Body is how long a request body may be, in bytes; 0 means any length.
func (l *Limiter) Body(who Who) int64 {
	longest := pick(who.Limits.Body, l.perKey.Body)
	if s := pick(0, l.perSandbox.Body); s > 0 && who.SandboxID != "" && (longest <= 0 || s < longest) {
		longest = s
	}
	return max(longest, 0)
}

func (l *Limiter) take(in *table, which Limit, id string, rate float64) *Refusal {
	if rate <= 0 || id == "" {
		return nil
	}
	k := requests
	if which == KeyCreates {
		k = creates
	}
	wait, ok := in.take(id, k, rate, l.now().UnixNano())
	if ok {
		return nil
	}
	return &Refusal{
		Limit: which,
		Text:  fmt.Sprintf("Too many %s: this %s may make %s a %s", per[k].text, which.of(), number(rate), per[k].name),
		After: wait,
	}
}

// Stream is one stream that has been let in.
type Stream struct {
	limiter *Limiter
	held    [2]held
}

type held struct {
	in *table
	id string
}

// Open lets one more stream in, or returns which limit it would break. The
// caller closes the stream.
func (l *Limiter) Open(who Who) (Stream, *Refusal) {
	s := Stream{limiter: l}
	ofSandbox, sandboxStreams := &l.sandboxes, SandboxStreams
	if who.Stranger {
		ofSandbox, sandboxStreams = &l.strangers, StrangerStreams
	}
	for i, bound := range []struct {
		in    *table
		which Limit
		id    string
		most  int
	}{
		{&l.keys, KeyStreams, who.Subject, pick(who.Limits.Streams, l.perKey.Streams)},
		{ofSandbox, sandboxStreams, who.SandboxID, pick(0, l.perSandbox.Streams)},
	} {
		if bound.most <= 0 || bound.id == "" {
			continue
		}
		if !bound.in.open(bound.id, int64(bound.most), l.now().UnixNano()) {
			s.Close()
			return Stream{}, &Refusal{
				Limit: bound.which,
				Text:  fmt.Sprintf("Too many streams: this %s may have %d at a time", bound.which.of(), bound.most),
				After: time.Second,
			}
		}
		s.held[i] = held{bound.in, bound.id}
	}
	return s, nil
}

// Close counts the stream no more. Once.
func (s *Stream) Close() {
	for i, h := range s.held {
		if h.in != nil {
			h.in.closed(h.id, s.limiter.now().UnixNano())
			s.held[i] = held{}
		}
	}
}

// pick is a limit of one's own, or what holds for all. Negative: none.
func pick[N int | int64 | float64](own, all N) N {
	if own != 0 {
		return own
	}
	return all
}

// number writes a rate without needless digits.
func number(rate float64) string {
	if rate == math.Trunc(rate) {
		return fmt.Sprintf("%.0f", rate)
	}
	return fmt.Sprintf("%g", rate)
}
