package handlers

import (
	"errors"
	"net/http"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// hop is one address that may be tried.
type hop struct {
	scheme, address string
	inside          uint16            // the port to ask the rocklet at address for, or 0
	endpoint        *routing.Endpoint // nil for a sandbox that is dialled itself
}

// hops are the addresses at which the sandbox's service may be reached, in the
// order in which to try them.
func (c *dataCall) hops() ([]hop, *cause.Failure) {
	if f := c.learnPorts(); f != nil {
		return nil, f
	}
	if c.route.State != routing.StateRunning {
		return nil, &cause.Failure{Cause: cause.SandboxStarting} // again, after it was waited for
	}
	door, err := c.cluster.DoorTo(c.route, c.target.Port)
	switch {
	case errors.Is(err, routing.ErrPortNotExposed):
		c.out.Err = err
		return nil, &cause.Failure{Cause: cause.PortClosed, Port: c.target.Port}
	case err != nil:
		c.out.Err = err
		return nil, &cause.Failure{Cause: cause.RouteUnusable}
	case door.Address != "":
		c.sent.hop[0] = hop{scheme: c.scheme(), address: door.Address, inside: door.Inside}
		return c.sent.hop[:], nil
	}
	candidates := c.cluster.Proxy.Candidates(c.target.SandboxID)
	hops := c.sent.hop[:0]
	for _, e := range candidates {
		hops = append(hops, hop{scheme: e.Scheme, address: e.Address, endpoint: e})
	}
	return hops, nil
}

// learnPorts completes a route whose registry does not tell ports by itself, if the way
// to the port depends on them. To ask is a use of the sandbox, which the call is, too:
// /health is none, and goes without where it can.
//
// The route may turn out to be one of a sandbox that is still starting: see [Gateway.waits].
func (c *dataCall) learnPorts() *cause.Failure {
	if !c.route.PortsUnknown || !c.cluster.LacksMapping(c.route, c.target.Port) ||
		c.out.Operation.Name == healthCall && c.cluster.Unmapped == routing.UnmappedDial {
		return nil
	}
	if play := c.g.rehearsal; play != nil {
		play.unmapped = true
		return &cause.Failure{Cause: cause.RegistryUnavailable}
	}
	route, err := c.g.opt.Routes.Map(c.r.Context(), c.route)
	if err != nil {
		return c.portsNotLearned(err)
	}
	c.route = route
	why := causeOfLookup(c.r.Context(), route, nil)
	if why == cause.OK || c.g.waits(c.out.Operation, why) {
		return nil
	}
	c.out.Err = behind(why, route, nil)
	return &cause.Failure{Cause: why}
}

// portsNotLearned is why nobody knows the way to a port: because of what has become of the
// sandbox since it was looked up, if that can be told, and else that nobody can say.
func (c *dataCall) portsNotLearned(err error) *cause.Failure {
	c.out.Err = err
	switch now := c.lookAgain(); now {
	case cause.OK, cause.RouteUnusable:
		return &cause.Failure{Cause: cause.RegistryUnavailable}
	default:
		return &cause.Failure{Cause: now}
	}
}

// throughProxy reports a call that ROCK's proxy role answers.
func (c *dataCall) throughProxy() bool { return c.cluster.ThroughProxy(c.target.Port) }

// scheme is how a sandbox that is dialled itself is spoken to.
func (c *dataCall) scheme() string {
	if c.speaksH2C() {
		return upstream.SchemeH2C
	}
	return "http"
}

// speaksH2C reports a call of gRPC to a user's service. gRPC is HTTP/2 (gRPC over
// HTTP/2, "Protocol"), and most of its servers understand nothing else. Envd
// serves all of its protocols over HTTP/1.1, too.
func (c *dataCall) speaksH2C() bool {
	if c.target.Port == routing.EnvdPort || c.r.ProtoMajor != 2 {
		return false
	}
	p, _ := protocol.Framing(c.r.Header.Get("Content-Type"))
	return p == protocol.GRPC
}

// trailers is the only TE that HTTP/2 has (RFC 9113 section 8.2.2). Servers of
// gRPC look for it to tell clients from proxies that lose trailers.
var trailers = []string{"trailers"}

// pointAt addresses a request to the hop.
func (h hop) pointAt(out *http.Request, lifecycle string) {
	out.URL.Scheme = h.scheme
	if h.inside == 0 {
		out.URL.Host = upstream.Host(lifecycle, h.address)
	} else {
		out.URL.Host = upstream.TunnelHost(lifecycle, h.address, h.inside)
	}
}

// send tries the addresses until one accepts a connection. A request of which
// a byte was written is never sent again.
func (c *dataCall) send(req *http.Request, hops []hop) (*http.Response, error) {
	var err error
	for _, h := range hops {
		h.pointAt(req, c.route.Lifecycle)
		if c.r.Host == "" {
			req.Host = h.address
		}
		c.out.Upstream = h.address
		if h.endpoint == nil && c.out.Operation.Name != healthCall {
			c.g.activity.touch(c.route) // ROCK does not see it
		}
		var resp *http.Response
		begun := c.out.Trail.now()
		resp, err = c.g.opt.Upstream.RoundTrip(req)
		c.out.Trail.roundTripped(begun)
		if !dialFailed(err) {
			if h.endpoint != nil && err == nil {
				c.cluster.Proxy.Dialled(h.endpoint)
			}
			return resp, err
		}
		if req.Context().Err() != nil {
			return nil, err
		}
		if h.endpoint != nil {
			c.cluster.Proxy.DialFailed(h.endpoint)
		}
		if req.GetBody != nil {
			req.Body, _ = req.GetBody()
		}
	}
	return nil, err
}

func dialFailed(err error) bool {
	if err == nil {
		return false
	}
	var dial *upstream.DialError
	return errors.As(err, &dial)
}
