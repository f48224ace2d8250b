package handlers

import (
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/handlers/cause"
)

// defaultMaxHeader is the default of Options.MaxHeader, in bytes.
const defaultMaxHeader = 64 << 10

// headerSize is what the head of a request takes in HTTP/1.1, in bytes: the
// request line, and every header with its colon, space and line end.
func headerSize(r *http.Request) int {
	const ends = 4
	n := len(r.Method) + len(r.RequestURI) + len(r.Host) + len("Host") + 2*ends
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + ends
		}
	}
	return n
}

// limited is what a caller is told who has reached a limit.
func limited(r *limit.Refusal) cause.Failure {
	seconds := int((r.After + time.Second - 1) / time.Second)
	return cause.Failure{Cause: cause.Limit, Message: r.Text, RetryAfter: max(seconds, 1)}
}

// bounded makes the body of r fail once it is longer than who may send, or
// reports at once that it will be.
func (g *Gateway) bounded(w http.ResponseWriter, r *http.Request, who limit.Who) *cause.Failure {
	if g.opt.Limits == nil {
		return nil
	}
	longest := g.opt.Limits.Body(who)
	switch {
	case longest == 0 || r.ContentLength == 0:
		return nil
	case r.ContentLength > longest:
		return &cause.Failure{Cause: cause.TooLarge}
	case r.ContentLength < 0:
		r.Body = http.MaxBytesReader(w, r.Body, longest)
	}
	return nil
}
