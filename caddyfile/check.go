package e2bcaddyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/routing"
)

// errSharedRegistry is a rule about the whole config that is broken at one
// place of it.
var errSharedRegistry = errors.New("the registry of e2b serves one cluster only, because its records do not say which " +
	"cluster they belong to: give each cluster a registry of its own")

// Check reports the first contradiction in the config. It is what the parser
// of the Caddyfile applies, for configs that come as JSON. A value with a
// placeholder is passed over: check again once it is expanded.
func (c *Config) Check() error {
	if len(c.Clusters) == 0 {
		return errors.New("e2b needs at least one cluster: cluster <name> { admin <url>; proxy <url> }")
	}
	seen := map[string]bool{}
	for _, cluster := range c.Clusters {
		if cluster == nil {
			return errors.New("a cluster is null")
		}
		if seen[cluster.Name] {
			return fmt.Errorf("cluster %q is given twice", cluster.Name)
		}
		seen[cluster.Name] = true
		if err := cluster.check(); err != nil {
			return err
		}
	}
	if !slices.Contains([]string{"", "on", "off"}, c.CORS) {
		return fmt.Errorf("cors is on or off, not %q", c.CORS)
	}
	if !slices.Contains([]string{"", "public", "private"}, c.Traffic) {
		return fmt.Errorf("traffic is public or private, not %q", c.Traffic)
	}
	if c.Traffic == "public" && len(c.Domains) == 0 {
		return errors.New("traffic public needs the domain below which sandboxes have hosts: domain <name>")
	}
	if !slices.Contains([]string{"", "hide", "show"}, c.SandboxAddress) {
		return fmt.Errorf("sandbox_address is hide or show, not %q", c.SandboxAddress)
	}
	if !slices.Contains([]string{"", "lean", "standard"}, c.UpstreamClient) {
		return fmt.Errorf("upstream_client is lean or standard, not %q", c.UpstreamClient)
	}
	for _, domain := range c.Domains {
		if hasPlaceholder(domain) {
			continue
		}
		if err := checkDomain(domain); err != nil {
			return fmt.Errorf("domain: %w", err)
		}
	}
	if c.ReadyWaiting < 0 {
		return errors.New("ready_waiting must not be negative")
	}
	if c.LogSampling < 0 || c.LogSampling > maxLogSampling {
		return fmt.Errorf("log_sampling must be from 1 to %d", maxLogSampling)
	}
	for _, n := range []int64{c.MaxHeldEnvelope, c.BufferBody, c.MaxControlBody} {
		if n < 0 {
			return errors.New("max_held_envelope, buffer_body and max_control_body must not be negative")
		}
	}
	for _, d := range []caddy.Duration{c.DialTimeout, c.IdleTimeout, c.ControlTimeout, c.DefaultLifetime, c.DrainTimeout} {
		if d < 0 {
			return errors.New("dial_timeout, idle_timeout, control_timeout, default_lifetime and drain_timeout must not be negative")
		}
	}
	if err := c.Limits.check(); err != nil {
		return err
	}
	if err := c.checkRegistries(); err != nil {
		return err
	}
	return c.checkAccess()
}

// maxLogSampling is the greatest [Config.LogSampling].
const maxLogSampling = 1_000_000

// checkRegistries sees to it that no two clusters read the same records.
func (c *Config) checkRegistries() error {
	if len(c.Clusters) == 1 {
		return nil
	}
	if c.RegistryRaw != nil && moduleIn(c.RegistryRaw, "backend") != "control" &&
		slices.ContainsFunc(c.Clusters, func(cluster *ClusterConfig) bool { return cluster.RegistryRaw == nil }) {
		return errSharedRegistry
	}
	owner := map[string]string{}
	for _, cluster := range c.Clusters {
		for _, records := range redisRecords(cluster.RegistryRaw) {
			if other, ok := owner[records]; ok {
				return fmt.Errorf("clusters %q and %q cannot share a Redis: its records do not say which of the two they belong to",
					other, cluster.Name)
			}
			owner[records] = cluster.Name
		}
	}
	return nil
}

// redisRecords names the places a Redis registry reads from, one for each of
// its addresses, so that two can be compared.
func redisRecords(registry json.RawMessage) []string {
	var r RedisConfig
	if moduleIn(registry, "backend") != "redis" || json.Unmarshal(registry, &r) != nil {
		return nil
	}
	master := ""
	if r.Sentinel != nil {
		master = r.Sentinel.Master
	}
	var places []string
	for _, address := range r.Addresses {
		places = append(places, fmt.Sprintf("%s %s %d %s", address, master, r.DB, r.Prefix))
	}
	return places
}

func (c *ClusterConfig) check() error {
	problem := func(format string, args ...any) error {
		return fmt.Errorf("cluster %q: "+format, append([]any{c.Name}, args...)...)
	}
	switch {
	case !validName(c.Name):
		return fmt.Errorf("cluster %q: a name is 1 to 63 of a-z A-Z 0-9 - and _", c.Name)
	case len(c.Admin) == 0:
		return problem("needs the address of its admin role: admin <url>")
	case len(c.Proxy) == 0:
		return problem("needs the address of its proxy role: proxy <url>")
	case !slices.Contains([]string{"", "rock", "direct"}, c.Mode):
		return problem("mode is rock or direct, not %q", c.Mode)
	case !slices.Contains([]string{"", "tunnel", "dial", "refuse"}, c.UnmappedPorts):
		return problem("unmapped_ports is tunnel, dial or refuse, not %q", c.UnmappedPorts)
	case !slices.Contains([]string{"", "restart", "off"}, c.Resume):
		return problem("resume is restart or off, not %q", c.Resume)
	case !slices.Contains([]string{"", "stop", "off"}, c.Pause):
		return problem("pause is stop or off, not %q", c.Pause)
	case c.Weight < 0:
		return problem("weight must not be negative")
	case c.Mode == "direct" && len(c.Allow) == 0:
		return problem("mode direct needs the networks its sandboxes are in: allow <cidr>…")
	case len(c.Allow) == 0 && c.UnmappedPorts != "":
		return problem("unmapped_ports needs the networks its sandboxes are in: allow <cidr>…")
	case len(c.Allow) == 0 && len(c.Ports) > 0:
		return problem("ports needs the networks its sandboxes are in: allow <cidr>…")
	}
	for _, address := range slices.Concat(c.Admin, c.Proxy) {
		if hasPlaceholder(address) {
			continue
		}
		if err := checkEndpoint(address); err != nil {
			return problem("%w", err)
		}
	}
	for _, network := range c.Allow {
		if hasPlaceholder(network) {
			continue
		}
		if err := checkNetwork(network); err != nil {
			return problem("allow: %w", err)
		}
	}
	for _, ports := range c.Ports {
		if hasPlaceholder(ports) {
			continue
		}
		if err := checkPorts(ports); err != nil {
			return problem("ports: %w", err)
		}
	}
	for _, pattern := range c.Templates {
		if hasPlaceholder(pattern) {
			continue
		}
		if err := checkPattern(pattern); err != nil {
			return problem("templates: %w", err)
		}
	}
	if c.AESKey != "" && !hasPlaceholder(c.AESKey) {
		if err := checkAESKey(c.AESKey); err != nil {
			return problem("%w", err)
		}
	}
	if c.TLS != nil {
		if err := c.TLS.check(); err != nil {
			return problem("%w", err)
		}
	}
	return nil
}

func (t *TLSConfig) check() error {
	if (t.Cert == "") != (t.Key == "") {
		return errors.New("tls: cert and key belong together, one is missing")
	}
	return nil
}

func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 63
}

func checkEndpoint(address string) error {
	_, err := routing.ParseEndpoint(address)
	return err
}

func checkNetwork(network string) error {
	p, err := netip.ParsePrefix(network)
	if err != nil {
		return fmt.Errorf("%q is not a network in CIDR notation such as 10.0.0.0/8", network)
	}
	if p.Addr().Is4In6() {
		return fmt.Errorf("%q: write IPv4 networks as such", network)
	}
	if p.Masked() != p {
		return fmt.Errorf("%q has bits set beyond its length; the network is %s", network, p.Masked())
	}
	return nil
}

func checkPorts(ports string) error {
	_, err := routing.ParsePortRange(ports)
	return err
}

// checkDomain accepts a name in lower case of at least two labels, and a port.
func checkDomain(domain string) error {
	_, err := routing.ParseDomain(domain)
	return err
}

func checkPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("%q is not a pattern of template ids such as python:*", pattern)
	}
	return nil
}

// planeNames are the values of [HandlerConfig.Plane].
var planeNames = []string{"control", "data", "health"}

// Check reports a plane that does not exist.
func (h *HandlerConfig) Check() error {
	if h.Plane != "" && !slices.Contains(planeNames, h.Plane) {
		return fmt.Errorf("plane is control, data or health, not %q", h.Plane)
	}
	return nil
}
