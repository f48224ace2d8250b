package e2bcaddyfile

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// UnmarshalCaddyfile reads the registry. Syntax:
//
//	registry redis {
//	    address           <host:port>…
//	    username          <name>
//	    password          <secret>
//	    db                <number>
//	    sentinel_master   <name>
//	    sentinel_username <name>
//	    sentinel_password <secret>
//	    cluster
//	    tls { … }                        # see parseTLS; empty for the defaults
//	    protocol          2|3
//	    pool_size         <number>
//	    dial_timeout      <duration>
//	    read_timeout      <duration>
//	    lookup_timeout    <duration>
//	    prefix            <text>
//	    watch             …
//	}
func (r *RedisConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the backend's name
	at := here(d)
	if d.NextArg() {
		return d.Errf("registry redis takes no argument, but %q follows", d.Val())
	}
	err := eachOption(d, func(option string) (err error) {
		switch option {
		case "address":
			return words(d, &r.Addresses, nil)
		case "username":
			return setWord(d, &r.Username)
		case "password":
			return setWord(d, &r.Password)
		case "db":
			return number(d, &r.DB, 0, 1<<20)
		case "sentinel_master":
			return setWord(d, &r.SentinelMaster)
		case "sentinel_username":
			return setWord(d, &r.SentinelUsername)
		case "sentinel_password":
			return setWord(d, &r.SentinelPassword)
		case "cluster":
			r.Cluster = true
			return nothing(d, option)
		case "tls":
			r.TLS, err = parseTLS(d)
			return err
		case "protocol":
			return number(d, &r.Protocol, 2, 3)
		case "pool_size":
			return number(d, &r.PoolSize, 1, 100_000)
		case "dial_timeout":
			return duration(d, &r.DialTimeout)
		case "read_timeout":
			return duration(d, &r.ReadTimeout)
		case "lookup_timeout":
			return duration(d, &r.LookupTimeout)
		case "prefix":
			return setWord(d, &r.Prefix)
		case "watch":
			return setWord(d, &r.Watch)
		default:
			return unknown(d, option, "address", "username", "password", "db", "sentinel_master", "sentinel_username",
				"sentinel_password", "cluster", "tls", "protocol", "pool_size", "dial_timeout", "read_timeout",
				"lookup_timeout", "prefix", "watch")
		}
	})
	if err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return at.errf("registry redis: %v", err)
	}
	return nil
}

// Check reports the first contradiction in the config.
func (r *RedisConfig) Check() error {
	switch {
	case len(r.Addresses) == 0:
		return errors.New("needs an address: address <host:port>")
	case r.Cluster && r.SentinelMaster != "":
		return errors.New("cluster and sentinel_master contradict each other")
	case r.Cluster && r.DB != 0:
		return errors.New("a Redis Cluster has no db but 0")
	case r.SentinelMaster == "" && (r.SentinelUsername != "" || r.SentinelPassword != ""):
		return errors.New("sentinel_username and sentinel_password need sentinel_master")
	case !r.Cluster && r.SentinelMaster == "" && len(r.Addresses) > 1:
		return errors.New("several addresses need cluster or sentinel_master")
	case r.Username != "" && r.Password == "":
		return errors.New("username needs password")
	case r.SentinelUsername != "" && r.SentinelPassword == "":
		return errors.New("sentinel_username needs sentinel_password")
	case r.Protocol != 0 && r.Protocol != 2 && r.Protocol != 3:
		return fmt.Errorf("protocol is 2 or 3, not %d", r.Protocol)
	case r.DB < 0 || r.PoolSize < 0 || r.DialTimeout < 0 || r.ReadTimeout < 0 || r.LookupTimeout < 0:
		return errors.New("no number or duration may be negative")
	}
	if r.TLS != nil {
		return r.TLS.check()
	}
	return nil
}
