package module

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// App is the app "e2b". It holds what all handlers of a config share: the
// clusters, the registries with their cache, the connections to ROCK.
//
// All of it outlives the config it came with. A reload that leaves a part's
// options alone keeps the part: a cache stays warm and connections stay open.
// A request that is still running when its config is replaced keeps the parts
// it began with until it ends.
type App struct {
	e2bcaddyfile.Config

	registries []RegistryModule // by cluster
	keys       KeysModule       // nil: everybody gets in
	shared     *shared
	held       bool // we hold a reference to shared
	logger     *zap.Logger
	advised    map[*caddyhttp.Server]bool
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: name, New: func() caddy.Module { return new(App) }}
}

// Provision expands the config, checks it and builds what handlers need. It
// waits for nothing on the network: with Redis or ROCK down the gateway starts
// and says so request by request.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	if err := a.prepare(ctx); err != nil {
		return err
	}
	a.warnOfSampleKeys()
	a.adviseHosts()
	a.shared = newShared(func() (*live, error) { return build(a) })
	if _, err := a.shared.acquire(); err != nil {
		return err
	}
	a.held = true
	return ctx.GetMetricsRegistry().Register(&collector{a.shared})
}

// prepare expands the config, checks it and loads its modules.
func (a *App) prepare(ctx caddy.Context) error {
	if err := a.Config.CheckSecrets(); err != nil {
		return err
	}
	if err := expandConfig(&a.Config); err != nil {
		return err
	}
	if err := a.Config.Check(); err != nil {
		return err
	}
	if err := a.loadRegistries(ctx); err != nil {
		return err
	}
	return a.loadKeys(ctx)
}

// loadRegistries loads the registry module of every cluster. The app's own is
// loaded once for each cluster that has none, so that no two share a value.
func (a *App) loadRegistries(ctx caddy.Context) error {
	for _, cluster := range a.Clusters {
		if cluster == nil {
			continue // Check says so
		}
		var module any
		var err error
		switch {
		case cluster.RegistryRaw != nil:
			module, err = ctx.LoadModule(cluster, "RegistryRaw")
		case a.RegistryRaw != nil:
			// LoadModule empties the field it loads from.
			app := e2bcaddyfile.Config{RegistryRaw: a.RegistryRaw}
			module, err = ctx.LoadModule(&app, "RegistryRaw")
		default:
			module, err = ctx.LoadModuleByID(e2bcaddyfile.RegistryNamespace+".control", nil)
		}
		if err != nil {
			return fmt.Errorf("cluster %q: loading its registry: %w", cluster.Name, err)
		}
		registry, ok := module.(RegistryModule)
		if !ok {
			return fmt.Errorf("cluster %q: %T is no registry", cluster.Name, module)
		}
		a.registries = append(a.registries, registry)
	}
	return nil
}

// adviseListener warns, once a server, of what reloads do to it without the
// listener wrapper.
func (a *App) adviseListener(server *caddyhttp.Server) {
	if lasting.has(server) || a.advised[server] {
		return
	}
	if a.advised == nil {
		a.advised = map[*caddyhttp.Server]bool{}
	}
	a.advised[server] = true
	a.logger.Warn("connections of this server do not outlive a reload, which ends streams of SDKs over HTTP/2: "+
		"add the global option servers { listener_wrappers { e2b } }", zap.String("server", server.Name()))
}

// Start lets the registries push changes. The order in which Caddy starts apps
// is random; nothing here needs another one to be started.
func (a *App) Start() error {
	live, err := a.shared.acquire()
	if err != nil {
		return err
	}
	defer a.shared.release()
	live.routes.start()
	return nil
}

// Stop does nothing: requests of this config may still be running.
func (a *App) Stop() error { return nil }

// Cleanup gives up this config's hold on what it shares. Whatever is in use,
// by another config or by a request, stays.
func (a *App) Cleanup() error {
	if a.held {
		a.held = false
		a.shared.release()
	}
	return nil
}

var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
