package module

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// httpcore's synchronous HTTP/2 client (Python 2.34.0) answers no PING and takes
// nothing while the program works on an event.
func TestABusyClientIsNotTakenForADeadOne(t *testing.T) {
	for name, c := range map[string]struct {
		config      e2bcaddyfile.ListenerConfig
		ping, write time.Duration
	}{
		"by default": {e2bcaddyfile.ListenerConfig{}, 0, 5 * time.Minute},
		"off":        {e2bcaddyfile.ListenerConfig{PingInterval: -1}, 0, 5 * time.Minute},
		"asked for": {e2bcaddyfile.ListenerConfig{PingInterval: caddy.Duration(time.Second), WriteTimeout: caddy.Duration(time.Minute)},
			time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newConnections(new(front), &Listener{ListenerConfig: c.config, server: new(caddyhttp.Server)})
			defer pool.server.Close()
			defer all.Delete(pool)
			if h2 := pool.server.HTTP2; h2.SendPingTimeout != c.ping || h2.WriteByteTimeout != c.write {
				t.Errorf("a PING after %v, cut after %v, want %v and %v", h2.SendPingTimeout, h2.WriteByteTimeout, c.ping, c.write)
			}
		})
	}
}
