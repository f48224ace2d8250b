package module

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/auth/limit/share"
	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// limiter is a Limiter that configs share.
type limiter struct {
	*limit.Limiter
	share io.Closer // nil: it counts for itself
}

// Destruct ends the sharing.
func (l *limiter) Destruct() error {
	if l.share == nil {
		return nil
	}
	return l.share.Close()
}

// leaseLimits makes what holds callers to their limits, nil when there are none.
// What has been counted is kept over a reload that leaves the limits alone.
//
// Without limits in the config there may still be keys with limits of their own.
func (l *live) leaseLimits(a *App) (*limit.Limiter, error) {
	if a.Limits == nil && a.keys == nil {
		return nil, nil
	}
	var perKey, perSandbox auth.Limits
	if c := a.Limits; c != nil {
		if c.Key != nil {
			perKey = *c.Key
		}
		if c.Sandbox != nil {
			perSandbox = *c.Sandbox
		}
	}
	connection, realm := a.redisOfLimits()
	options := []any{"limits", perKey, perSandbox, connection, realm}
	if connection != nil {
		files, err := tlsFiles(connection.TLS)
		if err != nil {
			return nil, err
		}
		options = append(options, files)
	}
	k, err := key(options...)
	if err != nil {
		return nil, err
	}
	made, err := lease(&l.parts, limiters, k, func() (*limiter, error) {
		made := &limiter{Limiter: limit.New(perKey, perSandbox)}
		if connection == nil {
			return made, nil
		}
		client, err := redis.NewClient(redisConfig(connection))
		if err != nil {
			return nil, err
		}
		made.share = share.Start(client, realm, made.Limiter, slog.New(outlivingLog{}))
		return made, nil
	})
	if err != nil {
		return nil, err
	}
	return made.Limiter, nil
}

// redisOfLimits is the Redis that gateways share their counters through: that of
// the keys, else that of the first cluster, nil if neither has one. Gateways of
// one realm read the same keys, or records, in it: Redis knows no databases and
// prefixes where messages are concerned.
func (a *App) redisOfLimits() (_ *e2bcaddyfile.RedisConnection, realm string) {
	if keys, ok := a.keys.(*RedisKeys); ok {
		return &keys.RedisConnection, fmt.Sprintf("%d:%s", keys.DB, keys.Prefix)
	}
	for _, registry := range a.registries {
		if r, ok := registry.(*RedisRegistry); ok {
			return &r.RedisConnection, fmt.Sprintf("%d:%s", r.DB, r.Prefix)
		}
	}
	return nil, ""
}

// maxHeader is the limit of Options.MaxHeader.
func maxHeader(c *e2bcaddyfile.LimitsConfig) int {
	if c == nil {
		return 0
	}
	return int(c.Headers)
}

// caddysHeader is what Caddy lets the head of a request be on a server of which nothing
// else is said, in bytes.
const caddysHeader = 16 << 10

// makeRoom lets heads reach the gateway that are longer than its own limit, so that it
// is this one that is told, in words: Caddy ends the connection behind a line of text
// that no SDK can read. What the operator has said of the server holds, but for exactly
// Caddy's default, which cannot be told from nothing said.
func makeRoom(server *caddyhttp.Server, c *e2bcaddyfile.LimitsConfig) {
	if limit := cmp.Or(maxHeader(c), handlers.DefaultMaxHeader); server.MaxHeaderBytes == caddysHeader && limit > 0 {
		server.MaxHeaderBytes = max(caddysHeader, 2*limit)
	}
}
