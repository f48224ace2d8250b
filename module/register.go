package module

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// name is the name of the app, of the handler, of the global option and of the
// directive.
const name = "e2b"

func init() {
	caddy.RegisterModule(App{})
	caddy.RegisterModule(Admin{})
	caddy.RegisterModule(Handler{})
	caddy.RegisterModule(Listener{})
	caddy.RegisterModule(RedisRegistry{})
	caddy.RegisterModule(ControlRegistry{})
	caddy.RegisterModule(StaticRegistry{})
	caddy.RegisterModule(KeysOff{})
	caddy.RegisterModule(StaticKeys{})
	caddy.RegisterModule(FileKeys{})
	caddy.RegisterModule(RedisKeys{})
	caddy.RegisterModule(HTTPKeys{})
	caddy.RegisterModule(ReverseTransport{})
	caddy.RegisterModule(Permission{})
	for _, command := range commands {
		caddycmd.RegisterCommand(command)
	}
	httpcaddyfile.RegisterGlobalOption(name, parseGlobal)
	httpcaddyfile.RegisterHandlerDirective(name, parseDirective)
	httpcaddyfile.RegisterDirectiveOrder(name, httpcaddyfile.Before, "reverse_proxy")
}

// parseGlobal makes the app of the global option. For its syntax see
// [e2bcaddyfile.ParseGlobal].
func parseGlobal(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("the global option e2b is given twice")
	}
	config, err := e2bcaddyfile.ParseGlobal(d)
	if err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: name, Value: caddyconfig.JSON(config, nil)}, nil
}

// parseDirective makes the handler of a directive. For its syntax see
// [e2bcaddyfile.ParseDirective].
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	if h.Option(name) == nil {
		h.Next() // for the line number
		return nil, h.Err("the directive e2b needs the global option e2b, with a cluster, at the top of the file")
	}
	config, err := e2bcaddyfile.ParseDirective(h.Dispenser)
	if err != nil {
		return nil, err
	}
	return &Handler{HandlerConfig: *config}, nil
}
