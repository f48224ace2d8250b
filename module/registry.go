package module

import (
	"log/slog"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
)

// RegistryModule is a module of namespace "e2b.registries": a place where the
// routes of one cluster are looked up.
type RegistryModule interface {
	caddy.Module
	// Registry makes the registry. It must not wait for the network. If the
	// result is an [io.Closer] it is closed when its last user is gone, which
	// may be long after the module's own Cleanup: the result must not need
	// anything that Cleanup gives up.
	//
	// A reload keeps the registry, and the cache in front of it, when the
	// module's JSON after Provision and what Environment holds are the same as
	// before.
	Registry(Environment) (routing.Registry, error)
}

// Environment is what a [RegistryModule] may use of the gateway.
type Environment struct {
	// Cluster is the name of the cluster whose routes are looked up.
	Cluster string
	// Admin are the addresses of the cluster's admin role.
	Admin *routing.Balancer
	// Upstream sends requests to them.
	Upstream handlers.Upstream
	// KeyOf opens rock_authorization_encrypted with the cluster's aes_key and
	// returns the SHA-256 of the API key in it. Nil without an aes_key.
	KeyOf func(sealed string) (key [32]byte, ok bool)
	// Logger is for what an operator must know about the registry.
	Logger *slog.Logger
}

// standalone is a registry that does not use the Admin and Upstream of its
// environment, so that it and its cache survive when these change.
type standalone interface{ standalone() }

// withFiles is a registry that is made from files, among other things. files
// are their contents.
type withFiles interface {
	files() ([]string, error)
}
