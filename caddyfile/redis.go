package e2bcaddyfile

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// RedisFields are the names that [RedisConfig].Fields can replace.
var RedisFields = []string{"state", "host_ip", "port_mapping", "sandbox_id", "create_time", "start_time"}

// redisWatches are the values of [RedisConfig].Watch.
var redisWatches = []string{"tracking", "keyspace", "off"}

// UnmarshalCaddyfile reads the registry. Syntax:
//
//	registry redis {
//	    address           <host:port>…
//	    username          <name>
//	    password          <secret>       # a placeholder
//	    db                <number>
//	    sentinel_master   <name>
//	    sentinel_username <name>
//	    sentinel_password <secret>       # a placeholder
//	    cluster
//	    tls { … }                        # see parseTLS; may be empty
//	    protocol          2|3
//	    identify
//	    pool_size         <number>
//	    timeout           <duration>
//	    prefix            <text>
//	    field             <rock's name> <name>
//	    watch             tracking|keyspace|off
//	}
//
// All but field may come once.
func (r *RedisConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the backend's name
	at := here(d)
	if d.NextArg() {
		// Not quoted: it may be a redis:// URL with a password.
		return d.Err("registry redis takes no argument, its options are given in a block: registry redis { address <host:port> }")
	}
	var sentinel SentinelConfig
	err := eachOption(d, func(option string) (err error) {
		switch option {
		case "address":
			return words(d, &r.Addresses, checkAddress)
		case "username":
			return setWord(d, &r.Username)
		case "password":
			return secret(d, &r.Password)
		case "db":
			return number(d, &r.DB, 0, 1<<20)
		case "sentinel_master":
			return setWord(d, &sentinel.Master)
		case "sentinel_username":
			return setWord(d, &sentinel.Username)
		case "sentinel_password":
			return secret(d, &sentinel.Password)
		case "cluster":
			r.Cluster = true
			return nothing(d, option)
		case "tls":
			r.TLS, err = parseTLS(d)
			return err
		case "protocol":
			return number(d, &r.Protocol, 2, 3)
		case "identify":
			r.Identify = true
			return nothing(d, option)
		case "pool_size":
			return number(d, &r.PoolSize, 1, 100_000)
		case "timeout":
			return duration(d, &r.Timeout)
		case "prefix":
			return setWord(d, &r.Prefix)
		case "field":
			return r.parseField(d)
		case "watch":
			return choice(d, &r.Watch, redisWatches...)
		default:
			return unknown(d, option, "address", "username", "password", "db", "sentinel_master", "sentinel_username",
				"sentinel_password", "cluster", "tls", "protocol", "identify", "pool_size", "timeout", "prefix", "field", "watch")
		}
	}, "field")
	if err != nil {
		return err
	}
	if sentinel != (SentinelConfig{}) {
		r.Sentinel = &sentinel
	}
	if err := r.Check(); err != nil {
		return at.errf("registry redis: %v", err)
	}
	return nil
}

func (r *RedisConfig) parseField(d *caddyfile.Dispenser) error {
	var rocks, name string
	if !d.Args(&rocks, &name) || d.NextArg() {
		return d.Err("field takes two names: field <rock's name> <name>")
	}
	if !slices.Contains(RedisFields, rocks) {
		return d.Errf("field: %q is none of: %s", rocks, strings.Join(RedisFields, ", "))
	}
	if _, ok := r.Fields[rocks]; ok {
		return d.Errf("field %q is given twice", rocks)
	}
	if r.Fields == nil {
		r.Fields = map[string]string{}
	}
	r.Fields[rocks] = name
	return noBlock(d, "field")
}

// CheckSecrets reports the first password that is written out in the config
// itself, without quoting it. It is for configs that are not expanded yet; the
// parser of the Caddyfile does the same at the line.
func (r *RedisConfig) CheckSecrets() error {
	if err := checkSecret("password", r.Password); err != nil {
		return err
	}
	if r.Sentinel == nil {
		return nil
	}
	return checkSecret("sentinel_password", r.Sentinel.Password)
}

// Check reports the first contradiction in the config.
func (r *RedisConfig) Check() error {
	switch {
	case len(r.Addresses) == 0:
		return errors.New("needs an address: address <host:port>")
	case r.Cluster && r.Sentinel != nil:
		return errors.New("cluster and sentinel_master contradict each other")
	case r.Cluster && r.DB != 0:
		return errors.New("a Redis Cluster has no db but 0")
	case r.Sentinel != nil && r.Sentinel.Master == "":
		return errors.New("sentinel_username and sentinel_password need sentinel_master")
	case r.Sentinel != nil && r.Sentinel.Username != "" && r.Sentinel.Password == "":
		return errors.New("sentinel_username needs sentinel_password")
	case !r.Cluster && r.Sentinel == nil && len(r.Addresses) > 1:
		return errors.New("several addresses need cluster or sentinel_master")
	case r.Username != "" && r.Password == "":
		return errors.New("username needs password")
	case r.Protocol != 0 && r.Protocol != 2 && r.Protocol != 3:
		return fmt.Errorf("protocol is 2 or 3, not %d", r.Protocol)
	case r.DB < 0 || r.PoolSize < 0 || r.Timeout < 0:
		return errors.New("db, pool_size and timeout must not be negative")
	case !slices.Contains(redisWatches, cmp.Or(r.Watch, "off")):
		return fmt.Errorf("watch is one of %s, not %q", strings.Join(redisWatches, ", "), r.Watch)
	}
	for _, address := range r.Addresses {
		if err := checkAddress(address); err != nil && !hasPlaceholder(address) {
			return err
		}
	}
	for rocks := range r.Fields {
		if !slices.Contains(RedisFields, rocks) {
			return fmt.Errorf("field %q is none of: %s", rocks, strings.Join(RedisFields, ", "))
		}
	}
	if r.TLS != nil {
		return r.TLS.check()
	}
	return nil
}

func checkAddress(address string) error {
	if strings.Contains(address, "@") {
		return errors.New("an address is host:port; username and password are options of their own") // not quoted: it has both
	}
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return fmt.Errorf("%q is not host:port", address)
	}
	return nil
}
