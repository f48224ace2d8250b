package e2bcaddyfile

import (
	"errors"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// ParseGlobal reads the global option. Syntax:
//
//	e2b {
//	    cluster <name> { … }             # at least one, see parseCluster
//	    registry control|redis|static|…  [{ … }]
//	    cache { … }                      # see parseCache
//	    limits { … }                     # see parseLimits
//
//	    keys off|static|…  [{ … }]       # required
//	    tokens passthrough               # required with keys, but not with keys off
//	    tokens { … }                     # see parseTokens
//	    unowned deny|allow
//	    health  public|private
//
//	    domain          <name>[:<port>]…
//	    traffic         public|private
//	    sandbox_address hide|show
//	    ready_timeout   <duration>|off
//	    ready_waiting   <number>
//	    activity        <duration>|off
//
//	    cors              on|off
//	    rock_api          off|admin
//	    dial_timeout      <duration>
//	    idle_timeout      <duration>
//	    upstream_client   lean|standard
//	    control_timeout   <duration>
//	    max_held_envelope <size>
//	    buffer_body       <size>
//	    max_control_body  <size>
//	    upstream_idle     <duration>|off
//	    client_stall      <duration>|off
//	    default_lifetime  <duration>
//	    drain_timeout     <duration>
//	    log_sampling      <number>
//	}
//
// All but cluster may come once. A size is a number of bytes or has a unit:
// 64KiB, 1MiB, 1MB.
func ParseGlobal(d *caddyfile.Dispenser) (*Config, error) {
	d.Next() // the option's own name
	if d.NextArg() {
		return nil, d.Errf("the global option e2b takes no argument, but %q follows", d.Val())
	}
	start := here(d)
	c := new(Config)
	var registryAt, keysAt position
	err := eachOption(d, func(option string) (err error) {
		switch option {
		case "cluster":
			return c.parseCluster(d)
		case "registry":
			registryAt = here(d)
			c.RegistryRaw, err = parseModule(d, RegistryNamespace, "backend")
			return err
		case "cache":
			c.Cache, err = parseCache(d)
			return err
		case "cors":
			return choice(d, &c.CORS, "on", "off")
		case "limits":
			c.Limits, err = parseLimits(d)
			return err
		case "rock_api":
			return choice(d, &c.RockAPI, "off", "admin")
		case "keys":
			keysAt = here(d)
			c.KeysRaw, err = parseModule(d, KeysNamespace, "store")
			return err
		case "tokens":
			c.Tokens, err = parseTokens(d)
			return err
		case "unowned":
			return choice(d, &c.Unowned, "deny", "allow")
		case "health":
			return choice(d, &c.Health, "public", "private")
		case "domain":
			return words(d, &c.Domains, checkDomain)
		case "traffic":
			return choice(d, &c.Traffic, "public", "private")
		case "sandbox_address":
			return choice(d, &c.SandboxAddress, "hide", "show")
		case "ready_timeout":
			return durationOrOff(d, &c.ReadyTimeout)
		case "ready_waiting":
			return number(d, &c.ReadyWaiting, 1, 10_000_000)
		case "activity":
			return durationOrOff(d, &c.Activity)
		case "dial_timeout":
			return duration(d, &c.DialTimeout)
		case "idle_timeout":
			return duration(d, &c.IdleTimeout)
		case "upstream_client":
			return choice(d, &c.UpstreamClient, "lean", "standard")
		case "control_timeout":
			return duration(d, &c.ControlTimeout)
		case "max_held_envelope":
			return size(d, &c.MaxHeldEnvelope)
		case "buffer_body":
			return size(d, &c.BufferBody)
		case "max_control_body":
			return size(d, &c.MaxControlBody)
		case "upstream_idle":
			return durationOrOff(d, &c.UpstreamIdle)
		case "client_stall":
			return durationOrOff(d, &c.ClientStall)
		case "default_lifetime":
			return wholeSeconds(d, &c.DefaultLifetime)
		case "drain_timeout":
			return duration(d, &c.DrainTimeout)
		case "log_sampling":
			return number(d, &c.LogSampling, 1, maxLogSampling)
		default:
			return unknown(d, option, "cluster", "registry", "cache", "keys", "tokens", "unowned", "health", "domain", "traffic", "sandbox_address", "ready_timeout", "ready_waiting",
				"activity", "cors", "limits", "rock_api", "dial_timeout", "idle_timeout", "upstream_client",
				"control_timeout", "max_held_envelope", "buffer_body", "max_control_body", "upstream_idle", "client_stall", "default_lifetime", "drain_timeout", "log_sampling")
		}
	}, "cluster")
	if err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		at := start
		switch {
		case errors.Is(err, errSharedRegistry):
			at = registryAt
		case errors.Is(err, errAccess):
			at = keysAt
		}
		return nil, at.errf("%v", err)
	}
	return c, nil
}

// parseCluster reads one cluster. Syntax:
//
//	cluster <name> {
//	    admin          <url>…            # http://host[:port] or https://…
//	    proxy          <url>…
//	    mode           rock|direct
//	    allow          <cidr>…           # mode direct: required
//	    unmapped_ports tunnel|dial|refuse
//	    ports          <port>|<from>-<to>…
//	    resume         restart|off
//	    pause          stop|off
//	    weight         <number>
//	    templates      <pattern>…
//	    registry       control|redis|static|… [{ … }]
//	    aes_key        <secret>          # a placeholder
//	    tls { … }                        # see parseTLS
//	}
func (c *Config) parseCluster(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Err("a cluster needs a name: cluster <name> { … }")
	}
	at := here(d)
	cluster := &ClusterConfig{Name: d.Val()}
	if slices.ContainsFunc(c.Clusters, func(other *ClusterConfig) bool { return other.Name == cluster.Name }) {
		return d.Errf("cluster %q is given twice", cluster.Name)
	}
	if d.NextArg() {
		return d.Errf("a cluster has one name, but %q follows", d.Val())
	}
	err := eachOption(d, func(option string) (err error) {
		switch option {
		case "admin":
			return words(d, &cluster.Admin, checkEndpoint)
		case "proxy":
			return words(d, &cluster.Proxy, checkEndpoint)
		case "mode":
			return choice(d, &cluster.Mode, "rock", "direct")
		case "allow":
			return words(d, &cluster.Allow, checkNetwork)
		case "unmapped_ports":
			return choice(d, &cluster.UnmappedPorts, "tunnel", "dial", "refuse")
		case "ports":
			return words(d, &cluster.Ports, checkPorts)
		case "resume":
			return choice(d, &cluster.Resume, "restart", "off")
		case "pause":
			return choice(d, &cluster.Pause, "stop", "off")
		case "weight":
			return number(d, &cluster.Weight, 0, 1_000_000)
		case "templates":
			return words(d, &cluster.Templates, checkPattern)
		case "registry":
			cluster.RegistryRaw, err = parseModule(d, RegistryNamespace, "backend")
			return err
		case "aes_key":
			return secret(d, &cluster.AESKey)
		case "tls":
			cluster.TLS, err = parseTLS(d)
			return err
		default:
			return unknown(d, option, "admin", "proxy", "mode", "allow", "unmapped_ports", "ports", "resume", "pause", "weight", "templates", "registry", "aes_key", "tls")
		}
	})
	if err != nil {
		return err
	}
	if err := cluster.check(); err != nil {
		return at.errf("%v", err)
	}
	c.Clusters = append(c.Clusters, cluster)
	return nil
}

// parseTLS reads the client side of a TLS connection. Syntax:
//
//	tls {
//	    ca          <file>
//	    cert        <file>
//	    key         <file>
//	    server_name <name>
//	}
func parseTLS(d *caddyfile.Dispenser) (*TLSConfig, error) {
	at := here(d)
	if d.NextArg() {
		return nil, d.Errf("tls takes no argument, but %q follows", d.Val())
	}
	t := new(TLSConfig)
	err := eachOption(d, func(option string) error {
		switch option {
		case "ca":
			return setWord(d, &t.CA)
		case "cert":
			return setWord(d, &t.Cert)
		case "key":
			return setWord(d, &t.Key)
		case "server_name":
			return setWord(d, &t.ServerName)
		default:
			return unknown(d, option, "ca", "cert", "key", "server_name")
		}
	})
	if err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, at.errf("%v", err)
	}
	return t, nil
}

// parseCache reads the memory of routes. Syntax:
//
//	cache {
//	    ttl            <duration>
//	    negative       <duration>|off
//	    stale          <duration>|off
//	    patience       <duration>|off
//	    lookup_timeout <duration>
//	    size           <entries>
//	    lookups        <number>
//	}
func parseCache(d *caddyfile.Dispenser) (*CacheConfig, error) {
	if d.NextArg() {
		return nil, d.Errf("cache takes no argument, but %q follows", d.Val())
	}
	c := new(CacheConfig)
	err := eachOption(d, func(option string) error {
		switch option {
		case "ttl":
			return duration(d, &c.TTL)
		case "negative":
			return durationOrOff(d, &c.Negative)
		case "stale":
			return durationOrOff(d, &c.Stale)
		case "patience":
			return durationOrOff(d, &c.Patience)
		case "lookup_timeout":
			return duration(d, &c.LookupTimeout)
		case "size":
			return number(d, &c.Size, 1, 100_000_000)
		case "lookups":
			return number(d, &c.Lookups, 1, 100_000)
		default:
			return unknown(d, option, "ttl", "negative", "stale", "patience", "lookup_timeout", "size", "lookups")
		}
	})
	return c, err
}
