package module

import (
	"io"
	"log/slog"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/auth"
)

// KeysModule is a module of namespace "e2b.keys": a store of API keys.
type KeysModule interface {
	caddy.Module
	// Store makes the store. It must not wait for the network. If the result
	// is an [io.Closer] it is closed when its last user is gone, which may be
	// long after the module's own Cleanup: the result must not need anything
	// that Cleanup gives up.
	//
	// A reload keeps the store, and what it remembers, when the module's JSON
	// after Provision is the same as before.
	Store(KeysEnvironment) (auth.Store, error)
}

// KeysEnvironment is what a [KeysModule] may use of the gateway.
type KeysEnvironment struct {
	// Logger is for what an operator must know about the store.
	Logger *slog.Logger
}

// keyStore is a store that configs share.
type keyStore struct{ auth.Store }

// Destruct closes the store. Nobody uses it any more: every request holds a
// reference for as long as it runs.
func (s *keyStore) Destruct() error {
	if c, ok := s.Store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
