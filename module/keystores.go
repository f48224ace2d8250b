package module

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/callback"
	"github.com/caddy-e2b/gateway/auth/file"
	"github.com/caddy-e2b/gateway/auth/redis"
	"github.com/caddy-e2b/gateway/auth/remember"
	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// FileKeys is the module "e2b.keys.file": a JSON file.
type FileKeys struct{ e2bcaddyfile.FileKeysConfig }

// CaddyModule returns the Caddy module information.
func (FileKeys) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.KeysNamespace + ".file", New: func() caddy.Module { return new(FileKeys) }}
}

// Provision expands the path.
func (f *FileKeys) Provision(caddy.Context) error {
	e := newExpansion()
	e.texts("path", &f.Path)
	return e.err
}

// Validate checks the config.
func (f *FileKeys) Validate() error { return f.Check() }

// Store implements [KeysModule].
func (f *FileKeys) Store(env KeysEnvironment) (auth.Store, error) {
	return file.New(f.Path, env.Logger)
}

// RedisKeys is the module "e2b.keys.redis": hashes in a Redis.
type RedisKeys struct{ e2bcaddyfile.RedisKeysConfig }

// CaddyModule returns the Caddy module information.
func (RedisKeys) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.KeysNamespace + ".redis", New: func() caddy.Module { return new(RedisKeys) }}
}

// Provision expands the addresses and secrets.
func (r *RedisKeys) Provision(caddy.Context) error {
	if err := r.CheckSecrets(); err != nil {
		return err
	}
	e := newExpansion()
	e.redis(&r.RedisConnection)
	e.texts("prefix", &r.Prefix)
	return e.err
}

// Validate checks the config.
func (r *RedisKeys) Validate() error { return r.Check() }

// Store implements [KeysModule].
func (r *RedisKeys) Store(KeysEnvironment) (auth.Store, error) {
	store, err := redis.New(redisConfig(&r.RedisConnection), r.Prefix)
	if err != nil {
		return nil, err
	}
	return remember.New(store, memory(r.MemoryConfig, r.Timeout)), nil
}

func (r *RedisKeys) files() ([]string, error) { return tlsFiles(r.TLS) }

// HTTPKeys is the module "e2b.keys.http": a server of the operator's.
type HTTPKeys struct{ e2bcaddyfile.HTTPKeysConfig }

// CaddyModule returns the Caddy module information.
func (HTTPKeys) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.KeysNamespace + ".http", New: func() caddy.Module { return new(HTTPKeys) }}
}

// Provision expands the URL and the secret.
func (h *HTTPKeys) Provision(caddy.Context) error {
	if err := h.CheckSecrets(); err != nil {
		return err
	}
	e := newExpansion()
	e.texts("url", &h.URL)
	e.secrets("bearer", &h.Bearer)
	e.tls(h.TLS)
	return e.err
}

// Validate checks the config.
func (h *HTTPKeys) Validate() error { return h.Check() }

// Store implements [KeysModule].
func (h *HTTPKeys) Store(KeysEnvironment) (auth.Store, error) {
	tls, err := clientTLS(h.TLS)
	if err != nil {
		return nil, err
	}
	store, err := callback.New(callback.Config{URL: h.URL, Bearer: h.Bearer, Timeout: time.Duration(h.Timeout), TLS: tls})
	if err != nil {
		return nil, fmt.Errorf("asking for keys: %w", err)
	}
	return remember.New(store, memory(h.MemoryConfig, h.Timeout)), nil
}

func (h *HTTPKeys) files() ([]string, error) { return tlsFiles(h.TLS) }

func memory(m e2bcaddyfile.MemoryConfig, timeout caddy.Duration) remember.Options {
	return remember.Options{Timeout: time.Duration(timeout), Questions: m.Questions, Size: m.Size}
}

var (
	_ KeysModule            = (*FileKeys)(nil)
	_ caddy.Provisioner     = (*FileKeys)(nil)
	_ caddy.Validator       = (*FileKeys)(nil)
	_ caddyfile.Unmarshaler = (*FileKeys)(nil)
	_ KeysModule            = (*RedisKeys)(nil)
	_ caddy.Provisioner     = (*RedisKeys)(nil)
	_ caddy.Validator       = (*RedisKeys)(nil)
	_ caddyfile.Unmarshaler = (*RedisKeys)(nil)
	_ KeysModule            = (*HTTPKeys)(nil)
	_ caddy.Provisioner     = (*HTTPKeys)(nil)
	_ caddy.Validator       = (*HTTPKeys)(nil)
	_ caddyfile.Unmarshaler = (*HTTPKeys)(nil)
)
