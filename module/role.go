package module

import (
	"fmt"

	"github.com/caddy-e2b/gateway/routing"
)

// role is the balancer of one role's addresses, and with it the knowledge of
// which of them are down.
type role struct{ *routing.Balancer }

// Destruct ends the probes.
func (r *role) Destruct() error {
	r.Close()
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
		return &role{routing.NewBalancer(endpoints, nil)}, nil
	})
	return r, k, err
}
