package module

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
)

// live is what serves the requests of one config, and the references to the
// parts it is made of.
type live struct {
	gateway *handlers.Gateway
	access  *handlers.Access   // nil: everybody gets in
	members []*routing.Cluster // in the order of the config
	kinds   []string           // of their registries
	routes  *routes
	health  *health
	counts  map[string]*counted // by cluster, and of none
	parts   leases
	stay    func() // takes the gateway out of the exit
}

func (l *live) close() {
	if l.gateway != nil {
		l.stay()
		l.gateway.Close()
	}
	l.parts.release()
}

// deaths is shared by all configs: a stream goes on in the config it began with,
// and its sandbox is killed in another.
var deaths = handlers.NewDeaths()

// What operators have taken out of service, and what they are shown of the past. Both
// are the process's and outlive every config.
var (
	drains  = new(handlers.Drains)
	history = new(handlers.History)
)

// build makes the live parts of an app whose config is expanded and checked.
// Parts that exist already, because an earlier config asked for the same, are
// shared with it.
func build(a *App) (_ *live, err error) {
	l := new(live)
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	client, clientIDs, err := leaseUpstream(&l.parts, &a.Config)
	if err != nil {
		return nil, err
	}
	clusters, adminIDs, err := l.clusters(a.Clusters)
	if err != nil {
		return nil, err
	}
	l.members = clusters
	if err := l.leaseCounts(); err != nil {
		return nil, err
	}
	if l.routes, err = l.leaseRoutes(a, client, clientIDs, clusters, adminIDs); err != nil {
		return nil, err
	}
	if l.access, err = l.leaseAccess(a); err != nil {
		return nil, err
	}
	limits, err := l.leaseLimits(a)
	if err != nil {
		return nil, err
	}
	domains, err := domainsOf(&a.Config)
	if err != nil {
		return nil, err
	}
	for _, registry := range a.registries {
		l.kinds = append(l.kinds, registry.CaddyModule().ID.Name())
	}
	l.gateway = handlers.New(handlers.Options{
		Clusters:        clusters,
		Routes:          l.routes.cache,
		Upstream:        client,
		Domains:         domains,
		ShowAddress:     a.SandboxAddress == "show",
		ReadyTimeout:    time.Duration(a.ReadyTimeout),
		ReadyWaiting:    a.ReadyWaiting,
		Activity:        time.Duration(a.Activity),
		CORS:            corsOf(&a.Config),
		RockAPI:         rockAPIOf(&a.Config),
		Access:          l.access,
		Limits:          limits,
		MaxHeader:       maxHeader(a.Limits),
		ControlTimeout:  time.Duration(a.ControlTimeout),
		MaxControlBody:  a.MaxControlBody,
		BufferBody:      a.BufferBody,
		MaxHeldEnvelope: int(a.MaxHeldEnvelope),
		DefaultLifetime: time.Duration(a.DefaultLifetime),
		UpstreamIdle:    time.Duration(a.UpstreamIdle),
		ClientStall:     time.Duration(a.ClientStall),
		Silence:         silence{},
		Deaths:          deaths,
		Counts:          l.callCounts(),
		Drains:          drains,
		History:         history,
	})
	l.health = l.healthOf()
	l.stay = departure.attend(l.gateway)
	return l, nil
}

func domainsOf(c *e2bcaddyfile.Config) (domains []routing.Domain, _ error) {
	for _, name := range c.Domains {
		d, err := routing.ParseDomain(name)
		if err != nil {
			return nil, fmt.Errorf("domain: %w", err)
		}
		domains = append(domains, d)
	}
	return domains, nil
}

func rockAPIOf(c *e2bcaddyfile.Config) handlers.RockAPI {
	if c.RockAPI == "admin" {
		return handlers.RockAPIAdmin
	}
	return handlers.RockAPIOff
}

func corsOf(c *e2bcaddyfile.Config) handlers.CORS {
	if c.CORS == "off" {
		return handlers.CORSOff
	}
	return handlers.CORSOn
}

// clusters makes the clusters and names their admin roles for [key].
func (l *live) clusters(configs []*e2bcaddyfile.ClusterConfig) (clusters []*routing.Cluster, adminIDs []string, _ error) {
	for _, c := range configs {
		admin, id, err := leaseRole(&l.parts, c.Name, "admin", c.Admin)
		if err != nil {
			return nil, nil, err
		}
		proxy, _, err := leaseRole(&l.parts, c.Name, "proxy", c.Proxy)
		if err != nil {
			return nil, nil, err
		}
		cluster := &routing.Cluster{
			Name:      c.Name,
			Admin:     admin.Balancer,
			Proxy:     proxy.Balancer,
			Mode:      routing.ModeRock,
			Unmapped:  unmappedOf(c),
			Restarts:  c.Resume == "restart",
			Stops:     c.Pause == "stop",
			Weight:    c.Weight,
			Templates: c.Templates,
		}
		if c.Mode != "" {
			cluster.Mode = routing.Mode(c.Mode)
		}
		for _, network := range c.Allow {
			p, err := netip.ParsePrefix(network)
			if err != nil {
				return nil, nil, fmt.Errorf("cluster %q: allow: %w", c.Name, err)
			}
			cluster.AllowedHosts = append(cluster.AllowedHosts, p)
		}
		for _, ports := range c.Ports {
			r, err := routing.ParsePortRange(ports)
			if err != nil {
				return nil, nil, fmt.Errorf("cluster %q: ports: %w", c.Name, err)
			}
			cluster.Ports = append(cluster.Ports, r)
		}
		clusters = append(clusters, cluster)
		adminIDs = append(adminIDs, id)
	}
	return clusters, adminIDs, nil
}

func unmappedOf(c *e2bcaddyfile.ClusterConfig) routing.Unmapped {
	switch c.UnmappedPorts {
	case "dial":
		return routing.UnmappedDial
	case "refuse":
		return routing.UnmappedRefuse
	default:
		return routing.UnmappedTunnel
	}
}

// leaseRoutes makes the registries and their cache, or takes those of an
// earlier config that are made from the same options.
func (l *live) leaseRoutes(a *App, client handlers.Upstream, clientIDs []string, clusters []*routing.Cluster, adminIDs []string) (*routes, error) {
	options := []any{"routes", a.Cache}
	for i, registry := range a.registries {
		options = append(options, clusters[i].Name, registry.CaddyModule().ID, registry, a.Clusters[i].AESKey)
		if _, ok := registry.(standalone); !ok {
			options = append(options, clientIDs, adminIDs[i])
		}
		if made, ok := registry.(withFiles); ok {
			files, err := made.files()
			if err != nil {
				return nil, fmt.Errorf("cluster %q: %w", clusters[i].Name, err)
			}
			options = append(options, files)
		}
	}
	k, err := key(options...)
	if err != nil {
		return nil, err
	}
	return lease(&l.parts, tables, k, func() (*routes, error) {
		// The routes outlive this app, so they hold what they use themselves.
		var uses leases
		members, err := makeRegistries(a, &uses)
		if err != nil {
			uses.release()
			return nil, err
		}
		return newRoutes(members, cacheOptions(a.Cache), uses), nil
	})
}

func makeRegistries(a *App, uses *leases) (members []routing.Member, err error) {
	defer func() {
		if err != nil {
			for _, m := range members {
				closeAll([]routing.Registry{m.Registry})
			}
		}
	}()
	client, _, err := leaseUpstream(uses, &a.Config)
	if err != nil {
		return nil, err
	}
	for i, module := range a.registries {
		c := a.Clusters[i]
		admin, _, err := leaseRole(uses, c.Name, "admin", c.Admin)
		if err != nil {
			return members, err
		}
		keyOf, err := rockKeys(c.AESKey)
		if err != nil {
			return members, fmt.Errorf("cluster %q: %w", c.Name, err)
		}
		registry, err := module.Registry(Environment{
			Cluster:  c.Name,
			Admin:    admin.Balancer,
			Upstream: client,
			KeyOf:    keyOf,
			Logger:   slog.New(outlivingLog{}).With("cluster", c.Name),
		})
		if err != nil {
			return members, fmt.Errorf("cluster %q: %s: %w", c.Name, module.CaddyModule().ID, err)
		}
		counts, err := leaseCounts(uses, c.Name)
		if err != nil {
			return members, err
		}
		members = append(members, routing.Member{Cluster: c.Name, Registry: registry, Counts: counts.registry})
	}
	return members, nil
}

func cacheOptions(c *e2bcaddyfile.CacheConfig) routing.CacheOptions {
	if c == nil {
		return routing.CacheOptions{}
	}
	return routing.CacheOptions{
		TTL:           time.Duration(c.TTL),
		Negative:      time.Duration(c.Negative),
		Stale:         time.Duration(c.Stale),
		Patience:      time.Duration(c.Patience),
		LookupTimeout: time.Duration(c.LookupTimeout),
		MaxEntries:    c.Size,
		MaxLookups:    c.Lookups,
	}
}
