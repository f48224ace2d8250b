package doctor

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-e2b/gateway/routing"
)

// probe is the id of a sandbox that does not exist, in names and questions.
const probe = "e2b-gateway-doctor"

// expected is a name that clients use.
type expected struct {
	host     string
	plane    string // that it must serve, "" for either
	wildcard bool   // the name of a sandbox
}

// expectations are the names below a domain.
func expectations(domain string) []expected {
	if host, _, err := net.SplitHostPort(domain); err == nil {
		domain = host
	}
	return []expected{
		{"api." + domain, "control", false},
		{"sandbox." + domain, "data", false},
		{"49983-" + probe + "." + domain, "data", true},
	}
}

// sites holds the sites against the domains of the app.
func (x *examination) sites(context.Context) {
	for _, domain := range x.App.Domains {
		if _, err := routing.ParseDomain(domain); err != nil {
			continue // the config is refused
		}
		for _, name := range expectations(domain) {
			if !x.served(name) {
				x.found(domainUnserved, "domain "+domain, "No site with e2b serves %s.", name.host)
			}
		}
	}
}

// served reports a site that gives requests for the name to the gateway.
func (x *examination) served(name expected) bool {
	for _, s := range x.view.servers {
		for _, p := range s.places {
			if p.proxy || p.plane != "" && p.plane != name.plane {
				continue
			}
			if p.hosts == nil || slices.ContainsFunc(p.hosts, func(h string) bool { return matchesHost(h, name.host) }) {
				return true
			}
		}
	}
	return false
}

// hosts are the names of the gateway's sites, with the server of each.
func (v *view) hosts() map[string]*server {
	all := map[string]*server{}
	for _, s := range v.servers {
		for _, p := range s.places {
			for _, host := range p.hosts {
				all[host] = s
			}
		}
	}
	return all
}

// challenge reports how certificates for a name are had without a file: whether
// there is a way for a wildcard, and whether it is on demand.
func (v *view) challenge(name string) (wildcard, onDemand bool) {
	if v.tls.Automation == nil {
		return false, false
	}
	for _, policy := range v.tls.Automation.Policies {
		if policy == nil || len(policy.SubjectsRaw) > 0 && !slices.ContainsFunc(policy.SubjectsRaw, func(s string) bool { return matchesHost(s, name) }) {
			continue
		}
		ways := len(policy.ManagersRaw) > 0 || policy.OnDemand
		for _, issuer := range policy.IssuersRaw {
			var acme struct {
				Module     string `json:"module"`
				Challenges *struct {
					DNS json.RawMessage `json:"dns"`
				} `json:"challenges"`
			}
			_ = json.Unmarshal(issuer, &acme)
			ways = ways || acme.Module != "acme" && acme.Module != "zerossl" || acme.Challenges != nil && acme.Challenges.DNS != nil
		}
		return ways || v.tls.DNSRaw != nil, policy.OnDemand
	}
	return v.tls.DNSRaw != nil, false
}

// permission is the module that says which names get a certificate on demand.
func permission(c *caddytls.AutomationConfig) string {
	if c == nil || c.OnDemand == nil {
		return ""
	}
	if c.OnDemand.PermissionRaw == nil && c.OnDemand.Ask != "" {
		return "http"
	}
	return moduleName(c.OnDemand.PermissionRaw, "module")
}

func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }
