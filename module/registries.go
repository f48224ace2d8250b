package module

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/control"
	"github.com/caddy-e2b/gateway/routing/redis"
	"github.com/caddy-e2b/gateway/routing/static"
)

// RedisRegistry is the module "e2b.registries.redis": ROCK's own records in
// its Redis.
type RedisRegistry struct{ e2bcaddyfile.RedisConfig }

// CaddyModule returns the Caddy module information.
func (RedisRegistry) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.RegistryNamespace + ".redis", New: func() caddy.Module { return new(RedisRegistry) }}
}

// Provision expands the addresses and secrets.
func (r *RedisRegistry) Provision(caddy.Context) error {
	if err := r.CheckSecrets(); err != nil {
		return err
	}
	e := newExpansion()
	e.redis(&r.RedisConnection)
	e.texts("prefix", &r.Prefix)
	e.texts("timeout_prefix", &r.TimeoutPrefix)
	return e.err
}

// Validate checks the config.
func (r *RedisRegistry) Validate() error { return r.Check() }

// Registry implements [RegistryModule].
func (r *RedisRegistry) Registry(env Environment) (routing.Registry, error) {
	config := r.config()
	config.Evicted = control.New(handlers.RoleClient{Role: env.Admin, Upstream: env.Upstream}.Get).Evicted
	config.KeyOf = env.KeyOf
	config.Logger = env.Logger
	return redis.New(config)
}

// config is how the expanded registry reads its Redis.
func (r *RedisRegistry) config() redis.Config {
	config := redisConfig(&r.RedisConnection)
	config.KeyPrefix, config.TimeoutPrefix = r.Prefix, r.TimeoutPrefix
	config.Fields = redis.Fields{
		State:         r.Fields["state"],
		HostIP:        r.Fields["host_ip"],
		PortMapping:   r.Fields["port_mapping"],
		SandboxID:     r.Fields["sandbox_id"],
		CreateTime:    r.Fields["create_time"],
		StartTime:     r.Fields["start_time"],
		AutoClearTime: r.Fields["auto_clear_time"],
		ExpireTime:    r.Fields["expire_time"],
	}
	config.Watch = r.Watch
	return config
}

func (r *RedisRegistry) files() ([]string, error) { return tlsFiles(r.TLS) }

// ControlRegistry is the module "e2b.registries.control": the cluster's admin
// role, asked about each sandbox.
type ControlRegistry struct{ e2bcaddyfile.ControlConfig }

// CaddyModule returns the Caddy module information.
func (ControlRegistry) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.RegistryNamespace + ".control", New: func() caddy.Module { return new(ControlRegistry) }}
}

// Registry implements [RegistryModule].
func (c *ControlRegistry) Registry(env Environment) (routing.Registry, error) {
	return control.New(handlers.RoleClient{Role: env.Admin, Upstream: env.Upstream}.Get), nil
}

// StaticRegistry is the module "e2b.registries.static": a table in the config.
type StaticRegistry struct{ e2bcaddyfile.StaticConfig }

// CaddyModule returns the Caddy module information.
func (StaticRegistry) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.RegistryNamespace + ".static", New: func() caddy.Module { return new(StaticRegistry) }}
}

// Provision expands the hosts.
func (s *StaticRegistry) Provision(caddy.Context) error {
	e := newExpansion()
	for _, sandbox := range s.Sandboxes {
		if sandbox != nil {
			e.texts("host", &sandbox.Host)
		}
	}
	return e.err
}

// Validate checks the table.
func (s *StaticRegistry) Validate() error { return s.Check() }

// Registry implements [RegistryModule].
func (s *StaticRegistry) Registry(Environment) (routing.Registry, error) {
	sandboxes := make(map[string]static.Sandbox, len(s.Sandboxes))
	for id, sandbox := range s.Sandboxes {
		sandboxes[id] = static.Sandbox(*sandbox)
	}
	return static.New(sandboxes)
}

func (*StaticRegistry) standalone() {}

var (
	_ RegistryModule        = (*RedisRegistry)(nil)
	_ caddy.Provisioner     = (*RedisRegistry)(nil)
	_ caddy.Validator       = (*RedisRegistry)(nil)
	_ caddyfile.Unmarshaler = (*RedisRegistry)(nil)
	_ RegistryModule        = (*ControlRegistry)(nil)
	_ caddyfile.Unmarshaler = (*ControlRegistry)(nil)
	_ RegistryModule        = (*StaticRegistry)(nil)
	_ caddy.Provisioner     = (*StaticRegistry)(nil)
	_ caddy.Validator       = (*StaticRegistry)(nil)
	_ caddyfile.Unmarshaler = (*StaticRegistry)(nil)
)
