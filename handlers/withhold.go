package handlers

import (
	"net/http"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// withhold takes off a request what was meant for the gateway. A sandbox runs
// its user's code, and ROCK writes logs: a credential that the gateway has
// checked has done its work.
//
// The one reader besides the gateway is an envd that is dialled itself. It may
// have been given the sandbox's token, and checks it and what was signed with it
// once more.
func (c *dataCall) withhold(req *http.Request) {
	delete(req.Header, auth.HeaderTrafficToken)
	access := c.g.opt.Access
	switch {
	case access == nil:
		return // nobody here has checked anything
	case c.target.Port == routing.EnvdPort && c.cluster.Mode == routing.ModeDirect && access.Tokens != nil:
		if token, ok := c.r.Header[auth.HeaderAccessToken]; ok {
			// Set, not copied: Connection could have named it.
			req.Header[auth.HeaderAccessToken] = token
		}
	default:
		delete(req.Header, auth.HeaderAccessToken)
		if c.out.Operation.Name == filesCall && c.target.Port == routing.EnvdPort {
			req.URL.RawQuery = auth.WithoutSignature(req.URL.RawQuery)
		}
	}
}
