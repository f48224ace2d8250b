package e2bcaddyfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// RedisFields are the names that [RedisConfig].Fields can replace.
var RedisFields = []string{"state", "host_ip", "port_mapping", "sandbox_id", "create_time", "start_time", "auto_clear_time", "expire_time"}

// redisWatches are the values of [RedisConfig].Watch.
var redisWatches = []string{"tracking", "keyspace", "off"}

// UnmarshalCaddyfile reads the registry. Syntax:
//
//	registry redis {
//	    …                                # see RedisConnection.parseOption
//	    prefix            <text>
//	    timeout_prefix    <text>
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
	err := eachOption(d, func(option string) error {
		switch option {
		case "prefix":
			return setWord(d, &r.Prefix)
		case "timeout_prefix":
			return setWord(d, &r.TimeoutPrefix)
		case "field":
			return r.parseField(d)
		case "watch":
			return choice(d, &r.Watch, redisWatches...)
		default:
			return r.parseOption(d, option, "prefix", "timeout_prefix", "field", "watch")
		}
	}, "field")
	if err != nil {
		return err
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

// Check reports the first contradiction in the config.
func (r *RedisConfig) Check() error {
	if err := r.RedisConnection.check(); err != nil {
		return err
	}
	if !slices.Contains(redisWatches, cmp.Or(r.Watch, "off")) {
		return fmt.Errorf("watch is one of %s, not %q", strings.Join(redisWatches, ", "), r.Watch)
	}
	for rocks := range r.Fields {
		if !slices.Contains(RedisFields, rocks) {
			return fmt.Errorf("field %q is none of: %s", rocks, strings.Join(RedisFields, ", "))
		}
	}
	return nil
}
