package module

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// transport is a client with its pools of connections.
type transport struct{ *upstream.Transport }

// Destruct closes the connections that are not in use. Nobody is left to use
// the others once their requests end, and then they go by themselves.
func (t *transport) Destruct() error {
	t.CloseIdle()
	return nil
}

func leaseTransport(l *leases, c *e2bcaddyfile.Config, t *e2bcaddyfile.TLSConfig) (*transport, string, error) {
	contents, err := tlsFiles(t)
	if err != nil {
		return nil, "", err
	}
	k, err := key("transport", c.DialTimeout, c.IdleTimeout, c.UpstreamClient, t, contents)
	if err != nil {
		return nil, "", err
	}
	out, err := lease(l, transports, k, func() (*transport, error) {
		client, err := clientTLS(t)
		if err != nil {
			return nil, err
		}
		return &transport{upstream.New(upstream.Config{
			DialTimeout: time.Duration(c.DialTimeout),
			IdleTimeout: time.Duration(c.IdleTimeout),
			TLS:         client,
			Client:      upstream.Client(c.UpstreamClient),
			Meter:       upstreams,
		})}, nil
	})
	return out, k, err
}

// byAddress sends https requests with the TLS config of the cluster that the
// address belongs to.
type byAddress struct {
	plain  handlers.Upstream
	secure map[string]handlers.Upstream // by poolAddress
}

// RoundTrip implements [handlers.Upstream].
func (b *byAddress) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		if i := strings.IndexByte(r.URL.Host, '.'); i >= 0 {
			if t, ok := b.secure[r.URL.Host[i:]]; ok {
				return t.RoundTrip(r)
			}
		}
	}
	return b.plain.RoundTrip(r)
}

// poolAddress is the part of every pool key of address that follows the
// lifecycle.
func poolAddress(address string) string { return upstream.Host("", address) }

// leaseUpstream makes the client of all clusters. ids name it for [key].
func leaseUpstream(l *leases, c *e2bcaddyfile.Config) (_ handlers.Upstream, ids []string, _ error) {
	plain, id, err := leaseTransport(l, c, nil)
	if err != nil {
		return nil, nil, err
	}
	ids = []string{id}
	secure := map[string]handlers.Upstream{}
	claimed := map[string]string{} // poolAddress -> key of its transport
	for _, cluster := range c.Clusters {
		t, id, err := leaseTransport(l, c, cluster.TLS)
		if err != nil {
			return nil, nil, fmt.Errorf("cluster %q: %w", cluster.Name, err)
		}
		for _, addresses := range [][]string{cluster.Admin, cluster.Proxy} {
			for _, address := range addresses {
				e, err := routing.ParseEndpoint(address)
				if err != nil {
					return nil, nil, fmt.Errorf("cluster %q: %w", cluster.Name, err)
				}
				if e.Scheme != "https" {
					continue
				}
				at := poolAddress(e.Address)
				if other, ok := claimed[at]; ok && other != id {
					return nil, nil, fmt.Errorf("cluster %q: another cluster has %s with other tls options", cluster.Name, e.Address)
				}
				claimed[at], secure[at] = id, t
			}
		}
		ids = append(ids, id)
	}
	if len(secure) == 0 {
		return plain, ids, nil
	}
	return &byAddress{plain, secure}, ids, nil
}
