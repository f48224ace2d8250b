package e2bcaddyfile

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// parseOption reads one option of a block that says how to reach a Redis, and
// more is what else the block has. Syntax:
//
//	address           <host:port>…
//	username          <name>
//	password          <secret>         # a placeholder
//	db                <number>
//	sentinel_master   <name>
//	sentinel_username <name>
//	sentinel_password <secret>         # a placeholder
//	cluster
//	tls { … }                        # see parseTLS; may be empty
//	protocol          2|3
//	identify
//	pool_size         <number>
//	timeout           <duration>
func (c *RedisConnection) parseOption(d *caddyfile.Dispenser, option string, more ...string) (err error) {
	switch option {
	case "address":
		return words(d, &c.Addresses, checkAddress)
	case "username":
		return setWord(d, &c.Username)
	case "password":
		return secret(d, &c.Password)
	case "db":
		return number(d, &c.DB, 0, 1<<20)
	case "sentinel_master":
		return setWord(d, &c.sentinel().Master)
	case "sentinel_username":
		return setWord(d, &c.sentinel().Username)
	case "sentinel_password":
		return secret(d, &c.sentinel().Password)
	case "cluster":
		c.Cluster = true
		return nothing(d, option)
	case "tls":
		c.TLS, err = parseTLS(d)
		return err
	case "protocol":
		return number(d, &c.Protocol, 2, 3)
	case "identify":
		c.Identify = true
		return nothing(d, option)
	case "pool_size":
		return number(d, &c.PoolSize, 1, 100_000)
	case "timeout":
		return duration(d, &c.Timeout)
	default:
		return unknown(d, option, append([]string{"address", "username", "password", "db", "sentinel_master", "sentinel_username",
			"sentinel_password", "cluster", "tls", "protocol", "identify", "pool_size", "timeout"}, more...)...)
	}
}

func (c *RedisConnection) sentinel() *SentinelConfig {
	if c.Sentinel == nil {
		c.Sentinel = new(SentinelConfig)
	}
	return c.Sentinel
}

// CheckSecrets reports the first password that is written out, without quoting
// it. It is for configs that are not expanded yet.
func (c *RedisConnection) CheckSecrets() error {
	if err := checkSecret("password", c.Password); err != nil {
		return err
	}
	if c.Sentinel == nil {
		return nil
	}
	return checkSecret("sentinel_password", c.Sentinel.Password)
}

// check reports the first contradiction.
func (c *RedisConnection) check() error {
	switch {
	case len(c.Addresses) == 0:
		return errors.New("needs an address: address <host:port>")
	case c.Cluster && c.Sentinel != nil:
		return errors.New("cluster and sentinel_master contradict each other")
	case c.Cluster && c.DB != 0:
		return errors.New("a Redis Cluster has no db but 0")
	case c.Sentinel != nil && c.Sentinel.Master == "":
		return errors.New("sentinel_username and sentinel_password need sentinel_master")
	case c.Sentinel != nil && c.Sentinel.Username != "" && c.Sentinel.Password == "":
		return errors.New("sentinel_username needs sentinel_password")
	case !c.Cluster && c.Sentinel == nil && len(c.Addresses) > 1:
		return errors.New("several addresses need cluster or sentinel_master")
	case c.Username != "" && c.Password == "":
		return errors.New("username needs password")
	case c.Protocol != 0 && c.Protocol != 2 && c.Protocol != 3:
		return fmt.Errorf("protocol is 2 or 3, not %d", c.Protocol)
	case c.DB < 0 || c.PoolSize < 0 || c.Timeout < 0:
		return errors.New("db, pool_size and timeout must not be negative")
	}
	for _, address := range c.Addresses {
		if err := checkAddress(address); err != nil && !hasPlaceholder(address) {
			return err
		}
	}
	if c.TLS != nil {
		return c.TLS.check()
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
