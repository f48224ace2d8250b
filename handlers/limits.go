package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/websocket"
	"github.com/caddy-e2b/gateway/routing"
)

// DefaultMaxHeader is the default of Options.MaxHeader, in bytes.
const DefaultMaxHeader = 64 << 10

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

// limited is what a caller is told who has reached a limit. cluster is "" for a call of
// which it is not known yet.
func (g *Gateway) limited(plane routing.Plane, cluster string, r *limit.Refusal) *cause.Failure {
	g.countsOf(cluster).limits[plane][r.Limit].Add(1)
	seconds := int((r.After + time.Second - 1) / time.Second)
	return &cause.Failure{Cause: cause.Limit, Message: r.Text, RetryAfter: max(seconds, 1)}
}

// limits are the limits that hold for the caller of the control plane.
func (c *caller) limits() limit.Who {
	if c == nil {
		return limit.Who{} // everybody
	}
	return limit.Who{Subject: c.key.Subject, Limits: c.key.Limits}
}

// limitsOf are the limits that hold for what is done with a sandbox. Whose it is
// has been looked up before, so this waits for nobody; the limits of a key that
// is not remembered at the moment are the gateway's.
func (g *Gateway) limitsOf(ctx context.Context, p proof, route *routing.Route) limit.Who {
	who := limit.Who{SandboxID: route.SandboxID}
	a := g.opt.Access
	switch {
	case a == nil:
		return who
	case !p.isShown():
		who.Stranger = true
		return who
	case p.kind == proofKey:
		who.Subject, who.Limits = p.key.Subject, p.key.Limits
		return who
	}
	who.Subject, _ = a.subjectOf(ctx, route.Owner)
	if store, ok := a.Keys.(auth.Peeker); ok && route.Owner.Key != [32]byte{} {
		if key := store.Peek(route.Owner.Key); key != nil && key.Subject == who.Subject {
			who.Limits = key.Limits
		}
	}
	return who
}

// withinLimits counts a call of the data plane and the stream that it may be.
// done must be called when the call is over.
func (c *dataCall) withinLimits(p proof) (done func(), _ *cause.Failure) {
	l := c.g.opt.Limits
	if l == nil {
		return func() {}, nil
	}
	who := c.g.limitsOf(c.r.Context(), p, c.route)
	if r := l.Request(who); r != nil {
		return nil, c.g.limited(routing.DataPlane, c.out.Cluster, r)
	}
	if f := c.g.bounded(c.w, c.r, who); f != nil {
		return nil, f
	}
	if !c.proto.Framed() && !websocket.Requested(c.r) {
		return func() {}, nil
	}
	stream, r := l.Open(who)
	if r != nil {
		return nil, c.g.limited(routing.DataPlane, c.out.Cluster, r)
	}
	return stream.Close, nil
}

// withinLimits counts a call of the control plane.
func (g *Gateway) withinLimits(w http.ResponseWriter, r *http.Request, who *caller, op routing.Operation) *cause.Failure {
	l := g.opt.Limits
	if l == nil {
		return nil
	}
	refusal := l.Request(who.limits())
	if refusal == nil && op.Create {
		refusal = l.Create(who.limits())
	}
	if refusal != nil {
		return g.limited(op.Plane, "", refusal)
	}
	return g.bounded(w, r, who.limits())
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
