package module

import (
	"fmt"
	"log/slog"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/auth"
	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/handlers"
)

// loadKeys loads the store of the API keys. a.keys stays nil with "off", and
// with nothing else.
func (a *App) loadKeys(ctx caddy.Context) error {
	// LoadModule empties the field it loads from.
	config := e2bcaddyfile.Config{KeysRaw: a.KeysRaw}
	module, err := ctx.LoadModule(&config, "KeysRaw")
	if err != nil {
		return fmt.Errorf("loading the keys: %w", err)
	}
	if _, off := module.(*KeysOff); off {
		return nil
	}
	keys, ok := module.(KeysModule)
	if !ok {
		return fmt.Errorf("keys: %T is no store of API keys", module)
	}
	a.keys = keys
	return nil
}

// leaseAccess makes what decides who gets in, nil for everybody. The store is
// that of an earlier config when its options are the same.
func (l *live) leaseAccess(a *App) (*handlers.Access, error) {
	if a.keys == nil {
		return nil, nil
	}
	store, err := leaseKeys(&l.parts, a.keys)
	if err != nil {
		return nil, err
	}
	access := &handlers.Access{
		Keys:          store,
		AllowUnowned:  a.Unowned == "allow",
		PrivateHealth: a.Health == "private",
		PublicTraffic: len(a.Domains) > 0 && a.Traffic != "private",
	}
	if a.Tokens.Passthrough {
		return access, nil
	}
	var keys []auth.TokenKey
	for _, k := range a.Tokens.Keys {
		keys = append(keys, auth.TokenKey{ID: k.ID, Secret: []byte(k.Secret)})
	}
	if access.Tokens, err = auth.NewTokens(keys); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return access, nil
}

func leaseKeys(l *leases, module KeysModule) (auth.Store, error) {
	options := []any{"keys", module.CaddyModule().ID, module}
	if made, ok := module.(withFiles); ok {
		files, err := made.files()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", module.CaddyModule().ID, err)
		}
		options = append(options, files)
	}
	k, err := key(options...)
	if err != nil {
		return nil, err
	}
	s, err := lease(l, stores, k, func() (*keyStore, error) {
		store, err := module.Store(KeysEnvironment{Logger: slog.New(outlivingLog{})})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", module.CaddyModule().ID, err)
		}
		return &keyStore{store}, nil
	})
	if err != nil {
		return nil, err
	}
	return s.Store, nil
}
