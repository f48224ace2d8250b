package chaos

import (
	"syscall"
	"time"

	"github.com/caddy-e2b/gateway/integration/ownnet"
)

var gatewayFaults = []fault{
	{name: "a gateway is killed", fits: anywhere, weight: 1, once: true, family: "gateway", begin: func(w *world, s step) func() {
		return w.replace(s, syscall.SIGKILL)
	}},
	{name: "a gateway is stopped politely", fits: anywhere, weight: 1, once: true, family: "gateway", begin: func(w *world, s step) func() {
		return w.replace(s, syscall.SIGTERM)
	}},
	{name: "a gateway does not run for a while", fits: anywhere, weight: 1, once: true, family: "gateway", begin: func(w *world, s step) func() {
		g := w.gateways[s.b%len(w.gateways)]
		g.Signal(syscall.SIGSTOP)
		return func() { g.Signal(syscall.SIGCONT) }
	}},
	{name: "a gateway is reloaded again and again", fits: anywhere, weight: 2, once: true, family: "gateway", begin: func(w *world, s step) func() {
		g := w.gateways[s.b%len(w.gateways)]
		stop, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			for {
				if !ownnet.Migrates() {
					w.ledger.down(g.number, false)
				}
				err := g.reload()
				if !ownnet.Migrates() {
					w.ledger.up(g.number)
				}
				if err != nil {
					w.Errorf("seed %d: reloading gateway %d: %v", w.seed, g.number, err)
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(s.c%100) * time.Millisecond):
				}
			}
		}()
		return func() { close(stop); <-over }
	}},
}

// replace ends a gateway, and begins another in its place.
func (w *world) replace(s step, signal syscall.Signal) func() {
	g := w.gateways[s.b%len(w.gateways)]
	w.ledger.down(g.number, signal == syscall.SIGKILL)
	g.Signal(signal)
	return func() {
		g.end(w, signal)
		g.Replace(g.caddyfile)
		w.ledger.up(g.number)
	}
}
