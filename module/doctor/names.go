package doctor

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-e2b/gateway/routing"
)

// names resolves the names that clients use, side by side.
func (x *examination) names(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	wanted := x.wanted()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		running.Go(func() { x.resolve(ctx, name, wanted[name]) })
	}
}

// wanted are the names to resolve, and whether each stands for all sandboxes.
func (x *examination) wanted() map[string]bool {
	names := map[string]bool{}
	for host := range x.view.hosts() {
		switch {
		case isWildcard(host):
			names["49983-"+probe+host[1:]] = true
		case strings.ContainsAny(host, "*{"), net.ParseIP(strings.Trim(host, "[]")) != nil:
		default:
			names[host] = false
		}
	}
	for _, domain := range x.App.Domains {
		if _, err := routing.ParseDomain(domain); err != nil {
			continue // the config is refused
		}
		for _, name := range expectations(domain) {
			names[name.host] = name.wildcard
		}
	}
	return names
}

func (x *examination) resolve(ctx context.Context, name string, wildcard bool) {
	_, err := x.Resolver.LookupNetIP(ctx, "ip", name)
	var dns *net.DNSError
	switch {
	case err == nil:
	case errors.As(err, &dns) && dns.IsNotFound:
		k := nameUnresolved
		if wildcard {
			k = wildcardUnresolved
		}
		x.found(k, name, "There is no address for it.")
	default:
		x.unchecked("the address of "+name, "DNS does not answer")
	}
}
