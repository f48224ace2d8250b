package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// ended is why the gateway itself gave up a call. It is the cause of the call's
// context.
type ended struct{ cause cause.Cause }

func (e ended) Error() string { return "ended by the gateway: " + e.cause.String() }

// died is ended for a sandbox of which it became known at some moment.
type died struct {
	ended
	at time.Time
}

func (d died) Unwrap() error { return d.ended }

// endedBy is why the gateway gave up the call whose context is ctx, and
// cause.OK if it did not.
func endedBy(ctx context.Context) cause.Cause {
	var e ended
	if errors.As(context.Cause(ctx), &e) {
		return e.cause
	}
	return cause.OK
}

// learnedAt is when the gateway learnt of the end of a sandbox, for which it gave up the
// call whose context is ctx; the zero time if that was not why.
func learnedAt(ctx context.Context) time.Time {
	var d died
	errors.As(context.Cause(ctx), &d)
	return d.at
}

// deadlineGrace is what the other side gets beyond the client's deadline to say
// itself that it has passed.
const deadlineGrace = 500 * time.Millisecond

// clientDeadline reads Connect-Timeout-Ms: a number of at most ten digits
// (Connect protocol, "Timeouts"). Anything else is envd's to judge. Python
// 2.34.0 does not watch its own deadline: without the gateway it would wait for
// a silent sandbox for ever.
func clientDeadline(h http.Header) (time.Duration, bool) {
	values := h["Connect-Timeout-Ms"]
	if len(values) != 1 || len(values[0]) == 0 || len(values[0]) > 10 {
		return 0, false
	}
	ms := int64(0)
	for _, c := range []byte(values[0]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = ms*10 + int64(c-'0')
	}
	return time.Duration(ms) * time.Millisecond, true
}
