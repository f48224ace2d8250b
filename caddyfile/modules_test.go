package e2bcaddyfile

import "github.com/caddyserver/caddy/v2"

// The modules are registered by package module, which is not linked in here.
func init() {
	caddy.RegisterModule(off{})
	caddy.RegisterModule(table{})
	caddy.RegisterModule(hashes{})
	caddy.RegisterModule(asked{})
}

type (
	off    struct{ KeysOffConfig }
	table  struct{ StaticKeysConfig }
	hashes struct{ RedisKeysConfig }
	asked  struct{ HTTPKeysConfig }
)

func (off) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: KeysNamespace + ".off", New: func() caddy.Module { return new(off) }}
}

func (table) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: KeysNamespace + ".static", New: func() caddy.Module { return new(table) }}
}

func (hashes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: KeysNamespace + ".redis", New: func() caddy.Module { return new(hashes) }}
}

func (asked) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: KeysNamespace + ".http", New: func() caddy.Module { return new(asked) }}
}
