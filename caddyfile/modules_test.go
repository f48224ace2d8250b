package e2bcaddyfile

import "github.com/caddyserver/caddy/v2"

// The modules are registered by package module, which is not linked in here.
func init() {
	caddy.RegisterModule(off{})
	caddy.RegisterModule(table{})
}

type off struct{ KeysOffConfig }

func (off) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: KeysNamespace + ".off", New: func() caddy.Module { return new(off) }}
}

type table struct{ StaticKeysConfig }

func (table) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: KeysNamespace + ".static", New: func() caddy.Module { return new(table) }}
}
