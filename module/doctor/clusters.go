package doctor

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/netip"
	"slices"
	"time"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/routing"
)

const (
	// rockIdle is how long ROCK keeps an unused connection.
	rockIdle = 30 * time.Second
	// rockCreate is how long ROCK may take to answer a create.
	rockCreate = 85 * time.Second
)

// clusters looks at what the config says of the deployments of ROCK.
func (x *examination) clusters(context.Context) {
	if d := time.Duration(x.App.IdleTimeout); d >= rockIdle {
		x.found(idleTooLong, "global option e2b", "idle_timeout is %v.", d)
	}
	if d := time.Duration(x.App.ControlTimeout); d > 0 && d <= rockCreate {
		x.found(controlTooShort, "global option e2b", "control_timeout is %v.", d)
	}
	addresses, templates := map[string]string{}, map[string]string{}
	weighed := slices.ContainsFunc(x.App.Clusters, func(c *e2bcaddyfile.ClusterConfig) bool { return c != nil && c.Weight > 0 })
	for i, c := range x.App.Clusters {
		if c == nil {
			continue // the config is refused
		}
		where := "cluster " + c.Name
		for _, address := range slices.Compact(slices.Sorted(slices.Values(endpoints(c)))) {
			if other, ok := addresses[address]; ok {
				x.found(clusterShared, where, "%s is an address of cluster %s, too.", address, other)
			}
			addresses[address] = c.Name
		}
		for _, pattern := range c.Templates {
			if other, ok := templates[pattern]; ok {
				x.found(clusterTemplates, where, "Cluster %s has the templates %s, too.", other, pattern)
				continue
			}
			templates[pattern] = c.Name
		}
		if c.Weight == 0 && len(c.Templates) == 0 && (i > 0 || weighed) {
			x.found(clusterUnused, where, "It has neither weight nor templates.")
		}
		if len(x.App.Domains) > 0 && len(c.Allow) == 0 {
			x.found(domainClosed, where, "It has no allow.")
		}
		x.networks(c, where)
		if key, err := base64.StdEncoding.DecodeString(c.AESKey); err == nil && len(key) == 32 && bytes.Equal(key, make([]byte, 32)) {
			x.found(sampleAESKey, where, "aes_key is the all-zero key of ROCK's sample configs.")
		}
	}
}

// endpoints are the addresses of a cluster, host and port.
func endpoints(c *e2bcaddyfile.ClusterConfig) (all []string) {
	for _, address := range slices.Concat(c.Admin, c.Proxy) {
		if e, err := routing.ParseEndpoint(address); err == nil {
			all = append(all, e.Address)
		}
	}
	return all
}

func (x *examination) networks(c *e2bcaddyfile.ClusterConfig, where string) {
	for _, network := range c.Allow {
		if p, err := netip.ParsePrefix(network); err == nil && p.Bits() == 0 {
			x.found(allowEverything, where, "allow has %s.", network)
		}
	}
}
