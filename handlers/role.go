package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// RoleClient sends control-plane requests to one role of a cluster.
type RoleClient struct {
	Role     *routing.Balancer
	Upstream Upstream
}

// adminOf is a client of a cluster's admin role.
func (g *Gateway) adminOf(c *routing.Cluster) RoleClient { return RoleClient{c.Admin, g.opt.Upstream} }

// roleLifecycle is the pool key of its connections: they belong to a role, not
// to a sandbox.
const roleLifecycle = "role"

// Do sends what makeRequest returns to one address of the role and says which.
// Only a failed dial leads to the next address, and to another request: after
// that nobody knows what ROCK has done.
func (c RoleClient) Do(ctx context.Context, makeRequest func() *http.Request) (*http.Response, string, error) {
	trail := trailOf(ctx)
	var lastErr error
	for _, e := range c.Role.Candidates("") {
		req := makeRequest()
		pointAt(req, e.Scheme, roleLifecycle, e.Address)
		// A role may stand behind a server that goes by names.
		req.Host = e.Address
		begun := trail.now()
		resp, err := c.Upstream.RoundTrip(req)
		trail.roundTripped(begun)
		var dial *upstream.DialError
		if !errors.As(err, &dial) {
			if err == nil {
				c.Role.Dialled(e)
			}
			return resp, e.Address, err
		}
		if ctx.Err() != nil {
			return nil, e.Address, err
		}
		c.Role.DialFailed(e)
		lastErr = err
	}
	return nil, "", lastErr
}

// Get sends GET path. It is the Getter of registry control.
func (c RoleClient) Get(ctx context.Context, path string) (*http.Response, error) {
	return c.ask(ctx, http.MethodGet, path, nil)
}

// ask sends a request in the gateway's own name. Parts of target, a path with its
// query, that came from outside must be escaped or checked. body is JSON, nil for
// none.
func (c RoleClient) ask(ctx context.Context, method, target string, body []byte) (*http.Response, error) {
	path, query, _ := strings.Cut(target, "?")
	resp, _, err := c.Do(ctx, func() *http.Request {
		req := (&http.Request{
			Method: method,
			URL:    &url.URL{Opaque: path, RawQuery: query},
			Header: http.Header{"Accept": {"application/json"}, "User-Agent": {"e2b-gateway"}},
		}).WithContext(ctx)
		if body != nil {
			req.Header["Content-Type"] = []string{"application/json"}
		}
		bufferedBody(req, body)
		if t := trailOf(ctx); t != nil {
			new(parts).setTrace(req.Header, nil, t)
		}
		return req
	})
	return resp, err
}
