package harness

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// Caddy is one inside the test's process. Package inprocess has it: a test
// that needs none is not linked with all of Caddy.
type Caddy interface {
	// Adapt turns a Caddyfile into JSON.
	Adapt(caddyfile string) (config []byte, err error)
	// Load replaces the running config.
	Load(config []byte) error
	// Stop ends what runs.
	Stop() error
}

// Gateway is a gateway inside the test's process.
type Gateway struct {
	Endpoint
	caddy   Caddy
	setting *setting
	running bool
}

// inUse is set while a Gateway of this process runs.
var inUse atomic.Bool

// Start runs a Caddyfile until the test ends. The transport is [Cleartext]
// unless one is given. A config that Caddy refuses ends the test.
func Start(t testing.TB, caddy Caddy, caddyfile string, transport ...Transport) *Gateway {
	t.Helper()
	if !inUse.CompareAndSwap(false, true) {
		t.Fatal("another gateway runs in this process: Caddy's config is global, run such tests one after the other")
	}
	t.Cleanup(func() { inUse.Store(false) })
	g := &Gateway{caddy: caddy, setting: newSetting(t, transport)}
	g.t = t
	t.Cleanup(g.Stop)
	// A port that was free may be taken before Caddy binds it.
	for attempt := 1; ; attempt++ {
		err := g.load(caddyfile)
		if err == nil {
			return g
		}
		if attempt == 5 || !errors.Is(err, syscall.EADDRINUSE) && !strings.Contains(err.Error(), "address already in use") {
			t.Fatalf("starting the gateway: %v", err)
		}
		g.setting.forget()
	}
}

// Reload replaces the running config. Listeners that stay keep their address.
func (g *Gateway) Reload(caddyfile string) {
	g.t.Helper()
	if err := g.load(caddyfile); err != nil {
		g.t.Fatalf("reloading the gateway: %v", err)
	}
}

// TryReload is Reload for a config that may be refused. The old one then goes
// on.
func (g *Gateway) TryReload(caddyfile string) error {
	g.t.Helper()
	return g.load(caddyfile)
}

func (g *Gateway) load(caddyfile string) error {
	g.t.Helper()
	adapted, err := g.caddy.Adapt(g.setting.fill(g.t, caddyfile))
	if err != nil {
		return err
	}
	config, e := g.setting.apply(g.t, adapted)
	if err := g.caddy.Load(config); err != nil {
		if g.running { // what the refused config had opened is closed in the background
			settle(g.t, g.addresses(), 1)
		}
		return err
	}
	g.Endpoint, g.running = e, true
	settle(g.t, e.addresses(), 1)
	return nil
}

// Stop ends the gateway. Requests in progress are not waited for. The test
// does it by itself at its end.
func (g *Gateway) Stop() {
	if !g.running {
		return
	}
	g.running = false
	if err := g.caddy.Stop(); err != nil {
		g.t.Errorf("stopping the gateway: %v", err)
	}
	settle(g.t, g.setting.addresses, 0)
}

// Logs is what the gateway has logged so far, one JSON object a line.
func (g *Gateway) Logs() string { return readLog(g.t, g.setting) }

func readLog(t testing.TB, s *setting) string {
	b, err := os.ReadFile(s.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}
