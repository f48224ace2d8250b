package doctor

import (
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

// view is the part of Caddy's config that decides how requests come to the
// gateway.
type view struct {
	admin   caddy.AdminConfig
	logging caddy.Logging
	http    caddyhttp.App
	tls     caddytls.TLS
	// servers are those that have the gateway on them, and others all the rest.
	servers []*server
	others  int
}

// server is one server of the http app.
type server struct {
	*caddyhttp.Server
	name   string
	places []*place
	// all are the handlers of the server, wherever they are.
	all []handler
	// open says that there is a route for every host.
	open bool
}

// place is where a request is given to the gateway.
type place struct {
	// proxy is a reverse_proxy with our transport, else it is our handler.
	proxy bool
	// plane of our handler, "" for both.
	plane string
	// hosts that lead there, nil for all.
	hosts []string
	// before are the handlers that a request may have come through, and itself is
	// the one it came to.
	before []handler
	itself json.RawMessage
}

type handler struct {
	name string
	raw  json.RawMessage
}

// viewOf reads what it can of a config. What Caddy would refuse is told as that,
// and missing here.
func viewOf(config json.RawMessage) *view {
	v := new(view)
	var all struct {
		Admin   *caddy.AdminConfig `json:"admin"`
		Logging *caddy.Logging     `json:"logging"`
		Apps    struct {
			HTTP json.RawMessage `json:"http"`
			TLS  json.RawMessage `json:"tls"`
		} `json:"apps"`
	}
	_ = json.Unmarshal(config, &all)
	if all.Admin != nil {
		v.admin = *all.Admin
	}
	if all.Logging != nil {
		v.logging = *all.Logging
	}
	_ = json.Unmarshal(all.Apps.HTTP, &v.http)
	_ = json.Unmarshal(all.Apps.TLS, &v.tls)
	for name, s := range v.http.Servers {
		if s == nil {
			continue
		}
		at := &server{Server: s, name: name}
		at.walk(s.Routes, nil, nil)
		if len(at.places) == 0 {
			v.others++
			continue
		}
		v.servers = append(v.servers, at)
	}
	slices.SortFunc(v.servers, func(a, b *server) int { return strings.Compare(a.name, b.name) })
	return v
}

// walk finds the places below routes. before are the handlers that a request has
// come through already, hosts the names that it may have, nil for all. It returns
// the handlers that a request has come through behind the routes.
func (s *server) walk(routes caddyhttp.RouteList, hosts []string, before []handler) []handler {
	type passed struct {
		group string
		by    []handler
	}
	var siblings []passed
	for _, route := range routes {
		at := hosts
		if names, ok := hostsOf(route); ok {
			at = names
		}
		chain := slices.Clone(before)
		for _, sibling := range siblings {
			if sibling.group == "" || sibling.group != route.Group {
				chain = append(chain, sibling.by...)
			}
		}
		here := len(chain)
		for _, raw := range route.HandlersRaw {
			chain = s.handle(raw, at, chain)
		}
		if at == nil && len(route.MatcherSetsRaw) == 0 && len(route.HandlersRaw) > 0 {
			s.open = true
		}
		if !route.Terminal {
			siblings = append(siblings, passed{route.Group, slices.Clone(chain[here:])})
		}
	}
	out := slices.Clone(before)
	for _, sibling := range siblings {
		out = append(out, sibling.by...)
	}
	return out
}

func (s *server) handle(raw json.RawMessage, hosts []string, chain []handler) []handler {
	var h struct {
		Handler   string              `json:"handler"`
		Plane     string              `json:"plane"`
		Routes    caddyhttp.RouteList `json:"routes"`
		Transport struct {
			Protocol string `json:"protocol"`
		} `json:"transport"`
	}
	if json.Unmarshal(raw, &h) != nil {
		return chain
	}
	if h.Handler == "subroute" {
		return s.walk(h.Routes, hosts, chain)
	}
	s.all = append(s.all, handler{h.Handler, raw})
	if h.Handler == "e2b" && h.Plane == "health" {
		return chain // serves nobody's requests
	}
	proxy := h.Handler == "reverse_proxy" && h.Transport.Protocol == "e2b"
	if h.Handler == "e2b" || proxy {
		s.places = append(s.places, &place{proxy, h.Plane, hosts, slices.Clone(chain), raw})
		return chain
	}
	return append(chain, handler{h.Handler, raw})
}

// hostsOf are the names that a route is for, false when it is for all.
func hostsOf(route caddyhttp.Route) (hosts []string, ok bool) {
	for _, set := range route.MatcherSetsRaw {
		raw, named := set["host"]
		if !named {
			return nil, false
		}
		var names []string
		_ = json.Unmarshal(raw, &names)
		hosts = append(hosts, names...)
	}
	return hosts, len(hosts) > 0
}

// gateway reports our handler on the server, as opposed to our transport.
func (s *server) gateway() bool {
	return slices.ContainsFunc(s.places, func(p *place) bool { return !p.proxy })
}

// secure reports whether a host of the server is served by TLS, "" for any.
func (v *view) secure(s *server, host string) bool {
	if len(s.TLSConnPolicies) > 0 {
		return true
	}
	auto := s.AutoHTTPS
	if auto != nil && (auto.Disabled || slices.Contains(auto.Skip, host)) {
		return false
	}
	plain := strconv.Itoa(v.http.HTTPPort)
	if v.http.HTTPPort == 0 {
		plain = "80"
	}
	for _, listen := range s.Listen {
		if a, err := caddy.ParseNetworkAddress(listen); err == nil && strconv.Itoa(int(a.StartPort)) != plain {
			return host != "" || a.StartPort == 443
		}
	}
	return false
}

// public reports a listener that other machines can reach.
func (s *server) public() bool {
	return slices.ContainsFunc(s.Listen, reachable)
}

// reachable reports an address of Caddy's that other machines can reach.
func reachable(listen string) bool {
	a, err := caddy.ParseNetworkAddress(listen)
	if err != nil || a.IsUnixNetwork() || a.IsFdNetwork() || a.Host == "localhost" {
		return false
	}
	ip := net.ParseIP(a.Host)
	return ip == nil || !ip.IsLoopback()
}

// matchesHost is Caddy's own rule: a * stands for one label.
func matchesHost(pattern, host string) bool {
	a, b := strings.Split(strings.ToLower(pattern), "."), strings.Split(strings.ToLower(host), ".")
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != "*" && a[i] != b[i] {
			return false
		}
	}
	return true
}
