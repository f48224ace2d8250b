package module

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-e2b/gateway/handlers"
)

// Permission is the module "tls.permission.e2b". With on-demand TLS it allows
// certificates for the domains of the app "e2b", their "api." and "sandbox." hosts,
// and the hosts of sandboxes that live, on ports that can be reached. Everybody
// who opens a connection can ask it; it looks in the cache of routes first.
type Permission struct{ shared *shared }

// CaddyModule returns the Caddy module information.
func (Permission) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.permission." + name, New: func() caddy.Module { return new(Permission) }}
}

// UnmarshalCaddyfile reads the option. Syntax:
//
//	on_demand_tls {
//	    permission e2b
//	}
func (p *Permission) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.Errf("permission e2b takes no argument, but %q follows", d.Val())
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		return d.Err("permission e2b takes no block")
	}
	return nil
}

// Provision finds the app.
func (p *Permission) Provision(ctx caddy.Context) error {
	app, err := ctx.AppIfConfigured(name)
	if err != nil {
		return fmt.Errorf("the permission e2b needs the app e2b: %w", err)
	}
	p.shared = app.(*App).shared
	if len(app.(*App).Domains) == 0 {
		return errors.New("the permission e2b needs the domains below which sandboxes have hosts: domain <name> in the global option e2b")
	}
	return nil
}

// CertificateAllowed implements [caddytls.OnDemandPermission]. Its error is
// caddytls.ErrPermissionDenied for a name that is known not to be served.
func (p *Permission) CertificateAllowed(ctx context.Context, host string) error {
	live, err := p.shared.acquire()
	if err != nil {
		return err
	}
	defer p.shared.release()
	err = live.gateway.Certify(ctx, host)
	if errors.Is(err, handlers.ErrNotServed) {
		return fmt.Errorf("%w: %w", caddytls.ErrPermissionDenied, err)
	}
	return err
}

var (
	_ caddy.Provisioner           = (*Permission)(nil)
	_ caddyfile.Unmarshaler       = (*Permission)(nil)
	_ caddytls.OnDemandPermission = (*Permission)(nil)
)
