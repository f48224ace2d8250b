package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// Listener is the listener wrapper "caddy.listeners.e2b". With it the
// connections of a server outlive its config.
//
// Without it, Caddy gives every config connections of its own. On a reload it
// closes those of the old config when they are idle, and sends GOAWAY on
// HTTP/2. SDKs do not bear that: undici (JavaScript) and httpcore (Python) take
// a GOAWAY for the end of every stream on the connection, and a request that
// meets a connection which is just being closed fails.
//
// With it, the connections that a listen address has accepted belong to that
// address. A request is served by the newest config that has the address when
// the request begins, and ends in the config that it began with. A reload
// closes no connection and sends no GOAWAY, whatever it changes, with two
// exceptions: when the client certificates that a server asks for change, and
// when no server has the address any more, connections are closed once their
// requests have ended. Timeouts and the options below that change hold for new
// connections.
//
// It also makes a small call over HTTP/2 a fifth cheaper and a silent stream there
// 4 KiB larger, see workers.
//
// It must be the last wrapper of a server, after TLS. HTTP/3 does not pass
// through listener wrappers and is served by Caddy as ever.
//
// The connections belong to no server of Caddy's, so functions that other
// modules register with [caddyhttp.Server.RegisterConnState] and
// [caddyhttp.Server.RegisterConnContext] are not called for them.
//
// When the process exits, the wrapper waits in the http app's grace period for
// the gateway to drain, without GOAWAY as long as requests run. Idle
// connections, those of HTTP/2 too, are closed at once when the drain begins.
type Listener struct {
	e2bcaddyfile.ListenerConfig

	ctx    caddy.Context
	server *caddyhttp.Server
	// clients names the client certificates that the server asks for.
	clients string
	parts   leases
	members []*member
}

// CaddyModule returns the Caddy module information.
func (Listener) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners." + name, New: func() caddy.Module { return new(Listener) }}
}

// Provision checks the place of the wrapper. It opens nothing.
func (l *Listener) Provision(ctx caddy.Context) error {
	if err := l.Check(); err != nil {
		return err
	}
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return errors.New("the listener wrapper e2b works in a server of the http app only")
	}
	if err := checkPlace(server); err != nil {
		return fmt.Errorf("server %s: %w", server.Name(), err)
	}
	clients, err := clientAuthentication(server)
	if err != nil {
		return err
	}
	l.ctx, l.server, l.clients = ctx, server, clients
	events, err := ctx.App("events")
	if err != nil {
		return err
	}
	// Not in Start: the config may still fail, and then nothing must have
	// changed.
	if err := events.(*caddyevents.App).On("started", onStarted(l.started)); err != nil {
		return err
	}
	server.RegisterOnStop(l.stop)
	lasting.Store(server, true)
	return nil
}

// lasting are the servers of loaded configs that have the wrapper.
var lasting servers

// checkPlace sees to it that connections come to the wrapper as they come to a
// server: after TLS, and with nothing behind that waits for them.
func checkPlace(server *caddyhttp.Server) error {
	var names []string
	for _, raw := range server.ListenerWrappersRaw {
		var w struct {
			Wrapper string `json:"wrapper"`
		}
		if err := json.Unmarshal(raw, &w); err != nil {
			return err
		}
		names = append(names, w.Wrapper)
	}
	switch at := slices.Index(names, name); {
	case at < len(names)-1 && names[at+1] == "tls":
		return errors.New("the listener wrapper e2b must come after tls, as it takes whole connections over")
	case at < len(names)-1:
		return fmt.Errorf("the listener wrapper e2b must be the last one, but %s follows, which would see no connection", names[at+1])
	}
	for _, protocols := range server.ListenProtocols {
		if protocols != nil && !slices.Equal(protocols, server.Protocols) {
			return errors.New("the listener wrapper e2b gives all addresses of a server the same protocols: " +
				"put an address that has others (bind … { protocols … }) into a server of its own")
		}
	}
	return nil
}

// clientAuthentication names the client certificates that a server asks for,
// which holds for a connection as long as that lives.
func clientAuthentication(server *caddyhttp.Server) (string, error) {
	var all []any
	for _, p := range server.TLSConnPolicies {
		if p != nil && p.ClientAuthentication != nil {
			all = append(all, p.MatchersRaw, p.ClientAuthentication)
		}
	}
	return key(all...)
}

// WrapListener takes the connections over that ln accepts.
func (l *Listener) WrapListener(ln net.Listener) net.Listener {
	address := ln.Addr().Network() + "/" + ln.Addr().String()
	// The front is made here and cannot fail to be.
	f, _ := lease(&l.parts, fronts, address, func() (*front, error) { return new(front), nil })
	m := f.join(l)
	l.members = append(l.members, m)
	return &handover{Listener: ln, to: m}
}

// started makes the config the one that serves.
func (l *Listener) started() {
	for _, m := range l.members {
		m.front.promote(m)
	}
}

// stop waits for the end of everything when the process exits. A reload needs
// nothing.
func (l *Listener) stop(ctx context.Context) error {
	if caddy.Exiting() {
		departure.complete(ctx, gracePeriod(l.ctx))
	}
	return nil
}

// Cleanup gives the addresses up. One that no config has any more is closed.
func (l *Listener) Cleanup() error {
	lasting.Delete(l.server)
	for _, m := range l.members {
		m.front.part(m)
	}
	l.members = nil
	l.parts.release()
	return nil
}

// onStarted is a subscription to Caddy's event "started", which comes when all
// apps of a config have started.
type onStarted func()

// Handle implements [caddyevents.Handler].
func (f onStarted) Handle(context.Context, caddy.Event) error {
	f()
	return nil
}

// handover is a listener that accepts connections for somebody else. Accept
// returns errors only, so that the server which Caddy has made for the config
// goes on accepting, waits after a failure, and learns of the end.
type handover struct {
	net.Listener
	to *member
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	for {
		c, err := h.Listener.Accept()
		if err != nil {
			return nil, err
		}
		h.to.take(c)
	}
}

var (
	_ caddy.Provisioner     = (*Listener)(nil)
	_ caddy.CleanerUpper    = (*Listener)(nil)
	_ caddy.ListenerWrapper = (*Listener)(nil)
)
