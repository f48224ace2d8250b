package module

import (
	"time"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// redis expands what says how to reach a Redis.
func (e *expansion) redis(c *e2bcaddyfile.RedisConnection) {
	e.list("address", c.Addresses)
	e.texts("username", &c.Username)
	e.secrets("password", &c.Password)
	if s := c.Sentinel; s != nil {
		e.texts("sentinel_master", &s.Master)
		e.texts("sentinel_username", &s.Username)
		e.secrets("sentinel_password", &s.Password)
	}
	e.tls(c.TLS)
}

// redisConfig is how an expanded connection is made.
func redisConfig(c *e2bcaddyfile.RedisConnection) redis.Config {
	config := redis.Config{
		Addresses: c.Addresses,
		Username:  c.Username,
		Password:  c.Password,
		DB:        c.DB,
		Cluster:   c.Cluster,
		Protocol:  c.Protocol,
		Identify:  c.Identify,
		PoolSize:  c.PoolSize,
		Timeout:   time.Duration(c.Timeout),
	}
	if s := c.Sentinel; s != nil {
		config.Sentinel = &redis.Sentinel{Master: s.Master, Username: s.Username, Password: s.Password}
	}
	if t := c.TLS; t != nil {
		config.TLS = &redis.TLS{CAFile: t.CA, CertFile: t.Cert, KeyFile: t.Key, ServerName: t.ServerName}
	}
	return config
}
