package module

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth"
	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// KeysOff is the module "e2b.keys.off": everybody gets in. It is no store, so
// that nothing but its name can open a gateway.
type KeysOff struct{ e2bcaddyfile.KeysOffConfig }

// CaddyModule returns the Caddy module information.
func (KeysOff) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.KeysNamespace + ".off", New: func() caddy.Module { return new(KeysOff) }}
}

// StaticKeys is the module "e2b.keys.static": a table in the config.
type StaticKeys struct{ e2bcaddyfile.StaticKeysConfig }

// CaddyModule returns the Caddy module information.
func (StaticKeys) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.KeysNamespace + ".static", New: func() caddy.Module { return new(StaticKeys) }}
}

// Validate checks the table.
func (s *StaticKeys) Validate() error { return s.Check() }

// Store implements [KeysModule].
func (s *StaticKeys) Store(KeysEnvironment) (auth.Store, error) { return auth.NewTable(s.Keys) }

var (
	_ caddyfile.Unmarshaler = (*KeysOff)(nil)
	_ KeysModule            = (*StaticKeys)(nil)
	_ caddy.Validator       = (*StaticKeys)(nil)
	_ caddyfile.Unmarshaler = (*StaticKeys)(nil)
)
