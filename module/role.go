package module

import (
	"fmt"

	"github.com/caddy-e2b/gateway/routing"
)

// role is the balancer of one role's addresses, and with it the knowledge of
// which of them are down.
type role struct {
	*routing.Balancer
	forget []func() // the addresses, see upstreams
}

// Destruct ends the probes.
func (r *role) Destruct() error {
	r.Close()
	for _, f := range r.forget {
		f()
	}
	return nil
}

func leaseRole(l *leases, cluster, half string, addresses []string) (*role, string, error) {
	k, err := key("role", cluster, half, addresses)
	if err != nil {
		return nil, "", err
	}
	r, err := lease(l, roles, k, func() (*role, error) {
		var endpoints []*routing.Endpoint
		for _, address := range addresses {
			e, err := routing.ParseEndpoint(address)
			if err != nil {
				return nil, fmt.Errorf("cluster %q: %s: %w", cluster, half, err)
			}
			endpoints = append(endpoints, e)
		}
		made := &role{Balancer: routing.NewBalancer(endpoints, nil)}
		for _, e := range endpoints {
			made.forget = append(made.forget, upstreams.Know(e.Address))
		}
		return made, nil
	})
	return r, k, err
}
