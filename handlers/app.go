package handlers

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// What is different about a user's own app, on any port of a sandbox but envd's.
// It is anybody's program, and its answers are read by anybody's clients: nothing
// in them is translated, completed or left out, beyond what a proxy must.

// envdPort is the value of the routing header. Shared by all requests.
var envdPort = []string{strconv.Itoa(routing.EnvdPort)}

// toApp reports a call that goes to an app.
func (c *dataCall) toApp() bool { return c.target.Port != routing.EnvdPort }

// relayedAs is the protocol that the gateway speaks along with while it relays a
// call. Of what an app says it repairs nothing: a cut is a cut.
func relayedAs(r *http.Request, op routing.Operation) protocol.Protocol {
	if isApp(op) {
		return protocol.Plain
	}
	return protocolOf(r, op)
}

// takesTrailers says so in a copy of the client's request, if the client does. TE ends
// at each hop, but gRPC servers may refuse to work for a client that does not take
// trailers, and the gateway does.
func takesTrailers(req, r *http.Request) {
	if httpguts.HeaderValuesContainsToken(r.Header["Te"], trailers[0]) {
		req.Header["Te"] = trailers
	}
}

// openingWaits are the pauses between the attempts to connect to a port of an app
// that refuses: users open the URL the moment they have started a server (field
// report C10).
var openingWaits = [...]time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}

// sendWhenOpen is send once more, after it has failed with err, with patience for
// an app that is about to listen. Nothing was sent while it does not.
func (c *dataCall) sendWhenOpen(req *http.Request, hops []hop, err error) (resp *http.Response, _ error) {
	for _, wait := range openingWaits {
		var dial *upstream.DialError
		if !errors.As(err, &dial) || !upstream.Refused(err) {
			break
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-req.Context().Done():
			timer.Stop()
			return nil, err
		}
		if resp, err = c.send(req, hops); err == nil {
			break
		}
	}
	return resp, err
}

// appVaries are the request headers that an answer of an app depends on where not
// everybody may have it.
const appVaries = varies + ", " + auth.HeaderTrafficToken

// appHeaders copies the headers of an app's answer to the client.
func (c *dataCall) appHeaders(h http.Header, resp *http.Response) {
	leaveToApp(h)
	endToEnd(h, resp.Header)
	if at, ok := c.outerLocation(h.Get("Location")); ok {
		h["Location"] = []string{at}
	}
	if c.g.opt.Access != nil {
		h["Vary"] = append(slices.Clip(h["Vary"]), appVaries)
	}
}

// outerLocation is a Location as the client needs it, if the app names the place
// at which the gateway, or a program beside it, reaches it (field report E12). A
// relative one, and any other host, is the app's own affair.
func (c *dataCall) outerLocation(location string) (string, bool) {
	if location == "" {
		return "", false
	}
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" || !c.isInner(u.Host) {
		return "", false
	}
	if u.Scheme != "" {
		u.Scheme = overHTTP[0]
		if schemeOf(c.r)[0] == overHTTPS[0] {
			u.Scheme = overHTTPS[0]
		}
	}
	u.Host, u.User = c.r.Host, nil
	if u.Host == "" {
		u.Scheme = "" // HTTP/1.0, and the client knows where it is
	}
	return u.String(), true
}

// isInner reports an authority that means the app, to nobody but the gateway and
// its neighbours in the sandbox.
func (c *dataCall) isInner(authority string) bool {
	if authority == c.out.Upstream {
		return true
	}
	host, port, err := net.SplitHostPort(authority)
	if err != nil || port != strconv.Itoa(int(c.target.Port)) {
		return false
	}
	dialled, _, _ := net.SplitHostPort(c.out.Upstream)
	switch host {
	case dialled, "localhost", "127.0.0.1", "0.0.0.0", "::1":
		return true
	}
	return false
}
