package handlers

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/handlers/upstream"
)

// HeaderRequestID is the header that names a request, in answers, and in requests
// that a trusted proxy passes on.
const HeaderRequestID = "X-Request-Id"

// Trail is what a request is found by again, in the gateway's log, in ROCK's and in
// a collector of traces, and where its time went. Nobody pays for it who does not
// read it: a caller that writes a line about every request gives an empty one to
// [Gateway.Serve]; without one, only a request that the gateway itself ends gets
// one, and that has the names and no times.
//
// All methods work with a nil Trail, and do nothing then.
type Trail struct {
	// RequestID is this request's alone: 32 hexadecimal digits, or what a trusted
	// proxy calls it in X-Request-Id. It is in the header X-Request-Id of the answer.
	RequestID string
	// TraceID is what all programs call the request that it is a part of: the
	// trace-id of a W3C traceparent, or else ROCK's eagleeye-traceid. Of a request
	// that came with neither it is the RequestID, as far as ROCK was told so, and "" else.
	TraceID string

	timed                   bool // there are times
	lookup, ready, upstream time.Duration
	connect                 atomic.Int64 // nanoseconds; whoever dials may do so for longer than the call lasts
	id                      [1]string    // the answer's header
}

// Times is where the time of a request went. What is in none of them was spent with
// the client, or in the gateway.
type Times struct {
	// Lookup is how long it took to find out where the sandbox is, and for a call
	// of the control plane whose it is.
	Lookup time.Duration
	// Ready is how long the call waited for its sandbox to start.
	Ready time.Duration
	// Connect is how long it took to connect to ROCK or the sandbox, failed
	// attempts included. 0 when there was a connection.
	Connect time.Duration
	// FirstByte is how long ROCK or the sandbox then took to begin its answer.
	FirstByte time.Duration
}

// Times returns where the time went, and false when nobody has looked at a clock.
func (t *Trail) Times() (Times, bool) {
	if t == nil || !t.timed {
		return Times{}, false
	}
	connect := time.Duration(t.connect.Load())
	return Times{Lookup: t.lookup, Ready: t.ready, Connect: connect, FirstByte: max(t.upstream-connect, 0)}, true
}

// begin fills a trail in for a request that has just come.
func (t *Trail) begin(w http.ResponseWriter, r *http.Request, peer Peer) {
	if t == nil {
		return
	}
	t.timed = true
	t.identify(r, peer)
	if t.TraceID == "" {
		t.TraceID = t.RequestID
	}
	t.mark(w)
}

// identify finds the names of a request.
func (t *Trail) identify(r *http.Request, peer Peer) {
	if peer == TrustedProxy {
		t.RequestID = sole(r.Header, HeaderRequestID)
	}
	if t.RequestID == "" {
		t.RequestID = newID()
	}
	t.TraceID = traceOf(r.Header)
}

// mark puts the name of the request into the answer.
func (t *Trail) mark(w http.ResponseWriter) {
	t.id[0] = t.RequestID
	w.Header()[HeaderRequestID] = t.id[:]
}

// now is the time, for one of the methods below.
func (t *Trail) now() (begun time.Time) {
	if t != nil && t.timed {
		begun = time.Now()
	}
	return begun
}

func (t *Trail) lookedUp(begun time.Time) {
	t.add(begun, func(t *Trail) *time.Duration { return &t.lookup })
}
func (t *Trail) waited(begun time.Time) {
	t.add(begun, func(t *Trail) *time.Duration { return &t.ready })
}
func (t *Trail) roundTripped(begun time.Time) {
	t.add(begun, func(t *Trail) *time.Duration { return &t.upstream })
}

func (t *Trail) add(begun time.Time, to func(*Trail) *time.Duration) {
	if t != nil && t.timed {
		*to(t) += time.Since(begun)
	}
}

// Identify begins the trail of a request that has none.
func (o *Outcome) Identify(r *http.Request) {
	if o.Trail == nil {
		o.Trail = new(Trail)
		o.Trail.identify(r, o.peer)
	}
}

// newID is a name that nothing else has. It opens nothing, so it may be guessed.
func newID() string {
	var b [16]byte
	var text [2 * len(b)]byte
	for i := 0; i < len(b); i += 8 {
		n := rand.Uint64()
		for j := range 8 {
			b[i+j] = byte(n >> (8 * j))
		}
	}
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// onTrail is the context of a call of the control plane that has a trail.
type onTrail struct {
	context.Context
	trail *Trail
}

// trailKey is what the trail is found by in a context.
type trailKey struct{}

// withTrail makes a trail known to what is called with the context.
func withTrail(ctx context.Context, t *Trail) context.Context {
	if t == nil {
		return ctx
	}
	return onTrail{ctx, t}
}

// Value implements [context.Context].
func (c onTrail) Value(key any) any {
	if v := c.trail.value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// value is what the trail adds to a context.
func (t *Trail) value(key any) any {
	if t == nil {
		return nil
	}
	switch key.(type) {
	case trailKey:
		return t
	case upstream.DialTime:
		return &t.connect
	default:
		return nil
	}
}

// trailOf is the trail of a context, or nil.
func trailOf(ctx context.Context) *Trail {
	t, _ := ctx.Value(trailKey{}).(*Trail)
	return t
}
