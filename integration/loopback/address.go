package loopback

import (
	"testing"

	"github.com/caddy-e2b/gateway/integration/heldport"
)

// FreeAddress is a loopback address that nobody listens on, and that nobody else is given until t has ended, the kernel's own choices
// included: a server may listen there, stop, and listen there again. It must say SO_REUSEADDR first, as nearly all do.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := heldport.Take(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Close)
	return port.Address
}
