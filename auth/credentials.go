package auth

import "net/http"

// Headers that carry credentials.
const (
	// HeaderAPIKey is the E2B SDK's key for the control plane.
	HeaderAPIKey = "X-Api-Key"
	// HeaderAccessToken is the E2B SDK's token for one sandbox's data plane.
	HeaderAccessToken = "X-Access-Token"
	// HeaderTrafficToken is E2B's token for the preview hosts of one sandbox.
	HeaderTrafficToken = "E2b-Traffic-Access-Token"
	// HeaderRockKey and HeaderRockAuthorization are the ROCK SDK's keys.
	HeaderRockKey           = "X-Key"
	HeaderRockAuthorization = "Xrl-Authorization"
)

// Hop is whom a request is sent on to. It decides which headers of the client
// may go along.
type Hop uint8

const (
	// Control is ROCK's control plane behind keys of the gateway's.
	Control Hop = iota
	// OpenControl is ROCK's control plane when the gateway asks for no keys:
	// ROCK keeps the caller's with the sandbox, so credentials pass.
	OpenControl
	// Envd is envd's port of a sandbox, or ROCK's proxy role on the way to it.
	Envd
	// App is any other port of a sandbox.
	App
)

// Passage is what becomes of a client's header on the way to the next hop.
type Passage uint8

const (
	// Passes: it is the client's own business, and ends here if the client's
	// Connection says so.
	Passes Passage = iota
	// Kept: it goes on, whatever Connection says.
	Kept
	// Dropped: it ends here, and only the gateway may send one.
	Dropped
	// Checked: it goes on when it is well-formed, see package handlers. Only the
	// gateway may say that it is.
	Checked
)

// family is a set of headers with one rule.
type family uint8

const (
	// apiKeys open the control plane. A sandbox runs its user's code, and often
	// somebody else's: a key that creates and ends sandboxes must not reach it.
	apiKeys family = iota
	// trafficTokens are for the gateway alone.
	trafficTokens
	// identities tell ROCK for whom it works.
	identities
	// internals steer ROCK and its agent in the sandbox: past its proxy's
	// checks, to any port and any host.
	internals
	// targets are the routing headers that the gateway reads and sets itself. They
	// end here for an app: a gateway that runs in a sandbox would follow them.
	targets
	// accessTokens open envd. An app beside it has no use for one.
	accessTokens
	// pages are what a browser adds of itself: cookies, which may be those of a
	// site that the gateway is part of, and the URL of the page, which may be a
	// signed one. Only an app has a use for them.
	pages
	// authorizations are the control plane's Bearer, or envd's user, or an
	// app's own.
	authorizations
	// framings say where a message ends. net/http writes them; in another
	// spelling they are an attempt to have two readings of one message.
	framings
	// hops end at each hop (RFC 9110 section 7.6.1, and older names).
	hops
	// traces join what several programs log about one request. ROCK writes its own
	// into every line of its log as it came. An app's clients may mean something
	// else by the names.
	traces
)

// guarded are the headers that the gateway has a rule for. Every spelling of a
// name counts: in any case, and with "_" or "." for "-", because there are
// frameworks that read all of them as one name. Headers that are not here pass,
// also those with an underscore: the SDKs send some.
var guarded = map[string]family{
	"x-api-key":                apiKeys,
	"x-key":                    apiKeys,
	"xrl-authorization":        apiKeys,
	"e2b-traffic-access-token": trafficTokens,
	"x-user-id":                identities,
	"x-experiment-id":          identities,
	"x-namespace":              identities,
	"x-cluster":                identities,
	"x-rock-target-port":       internals,
	"x-rock-user":              internals,
	"rock-host-ip":             internals,
	"sandbox-id":               internals,
	"route-key":                internals,
	"e2b-sandbox-id":           targets,
	"e2b-sandbox-port":         targets,
	"x-access-token":           accessTokens,
	"cookie":                   pages,
	"referer":                  pages,
	"authorization":            authorizations,
	"content-length":           framings,
	"transfer-encoding":        hops,
	"te":                       hops,
	"trailer":                  hops,
	"connection":               hops,
	"keep-alive":               hops,
	"upgrade":                  hops,
	"http2-settings":           hops,
	"traceparent":              traces,
	"tracestate":               traces,
	"eagleeye-traceid":         traces,
	// A CGI program would take it for its proxy (httpoxy).
	"proxy": hops,
}

// Prefixes of which every name has the rule of hops, or of [Forwarded].
const (
	proxyPrefix     = "proxy-"
	forwardedPrefix = "x-forwarded-"
)

// Forwarded reports a header that says where a request comes from, in any
// spelling. Only a proxy that is trusted may be believed.
func Forwarded(name string) bool {
	switch len(name) {
	case 0:
		return false
	case len("forwarded"):
		return same(name, "forwarded") || same(name, "x-real-ip")
	case len("x-client-ip"):
		return same(name, "x-client-ip")
	case len("true-client-ip"): // also of the prefix, with two letters more
		if same(name, "true-client-ip") {
			return true
		}
	}
	return name[0]|0x20 == 'x' && len(name) > len(forwardedPrefix) && same(name[:len(forwardedPrefix)], forwardedPrefix)
}

// rule is an entry of guarded.
type rule struct {
	name string
	// exact is the name as net/http spells it.
	exact  string
	family family
}

// maxGuarded is the length of the longest name, in bytes.
const maxGuarded = len("e2b-traffic-access-token")

// byLength is guarded, arranged so that most names are told apart without
// looking at them.
var byLength = func() (rules [maxGuarded + 1][]rule) {
	for name, f := range guarded {
		rules[len(name)] = append(rules[len(name)], rule{name, http.CanonicalHeaderKey(name), f})
	}
	return rules
}()

// PassageOf is what becomes of the client's header of that name.
func (h Hop) PassageOf(name string) Passage {
	if len(name) <= maxGuarded {
		for i := range byLength[len(name)] {
			if r := &byLength[len(name)][i]; same(name, r.name) {
				if name != r.exact {
					return Dropped
				}
				return h.passageOf(r.family)
			}
		}
	}
	if len(name) > len(proxyPrefix) && name[0]|0x20 == 'p' && same(name[:len(proxyPrefix)], proxyPrefix) {
		return Dropped
	}
	return Passes
}

func (h Hop) passageOf(f family) Passage {
	var kept bool
	switch f {
	case apiKeys:
		kept = h == OpenControl
	case targets:
		kept = h == Envd
	case accessTokens:
		kept = h == Envd
	case pages:
		kept = h == App
	case authorizations:
		kept = h != Control
	case traces:
		if h != App {
			return Checked
		}
		return Passes
	}
	if kept {
		return Kept
	}
	return Dropped
}

// same reports that a name is a spelling of a folded one of the same length.
func same(name, folded string) bool {
	if len(name) != len(folded) {
		return false
	}
	for i := 0; i < len(folded); i++ {
		c, want := name[i], folded[i]
		switch {
		case c == want:
		case c >= 'A' && c <= 'Z' && c|0x20 == want:
		case want == '-' && (c == '_' || c == '.'):
		default:
			return false
		}
	}
	return true
}

// OnlyBasic takes every Authorization away but those that name a user of the
// sandbox. "Basic <user>:" is envd's and no credential; any other scheme is
// meant for something else than envd, which would ignore it.
func OnlyBasic(h http.Header) {
	values := h["Authorization"]
	for _, v := range values {
		if isBasic(v) {
			continue
		}
		// The slice is the client's request's.
		var basic []string
		for _, v := range values {
			if isBasic(v) {
				basic = append(basic, v)
			}
		}
		if basic == nil {
			delete(h, "Authorization")
		} else {
			h["Authorization"] = basic
		}
		return
	}
}

func isBasic(v string) bool {
	const scheme = "basic "
	return len(v) >= len(scheme) && same(v[:len(scheme)], scheme)
}

// SetTenant tells ROCK for whom it works. What the client says about that is
// gone already, see [Hop.PassageOf].
func SetTenant(h http.Header, t Tenant) {
	for _, set := range [...]struct{ name, value string }{
		{"X-User-Id", t.UserID},
		{"X-Namespace", t.Namespace},
		{"X-Experiment-Id", t.ExperimentID},
		{"X-Cluster", t.Cluster},
	} {
		if set.value != "" {
			h[set.name] = []string{set.value}
		}
	}
}
