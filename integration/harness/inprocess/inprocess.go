// Package inprocess starts the gateway of a test inside the test's own process.
//
// It is a package of its own for the sake of the tests that run the real
// binary, most of them: each would be linked with all of Caddy, and never run
// any of it.
package inprocess

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // what a Caddyfile may use

	"github.com/caddy-e2b/gateway/integration/harness"
	_ "github.com/caddy-e2b/gateway/module"
)

// Start runs a Caddyfile until the test ends, as [harness.Start] says.
func Start(t testing.TB, caddyfile string, transport ...harness.Transport) *harness.Gateway {
	t.Helper()
	return harness.Start(t, here{}, caddyfile, transport...)
}

// Adapt turns a Caddyfile into JSON in this process.
func Adapt(caddyfile string) ([]byte, error) { return here{}.Adapt(caddyfile) }

// here is the Caddy of this process.
type here struct{}

func (here) Adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return config, err
}

func (here) Load(config []byte) error { return caddy.Load(config, true) }

func (here) Stop() error { return caddy.Stop() }
