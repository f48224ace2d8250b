package module_test

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

func init() {
	caddy.RegisterModule(disguise{})
	caddy.RegisterModule(failing{})
	httpcaddyfile.RegisterGlobalOption("test_fails", func(d *caddyfile.Dispenser, _ any) (any, error) {
		d.Next()
		return httpcaddyfile.App{Name: "test_fails", Value: []byte("{}")}, nil
	})
}

// failing is an app that does not start. Apps start in random order, so the
// http app has started before it or not.
type failing struct{}

func (failing) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "test_fails", New: func() caddy.Module { return new(failing) }}
}

func (failing) Start() error { return errors.New("fails on purpose") }

func (failing) Stop() error { return nil }

// disguise is a listener wrapper as others are: its connections are of a type
// of its own.
type disguise struct{}

func (disguise) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.test_disguise", New: func() caddy.Module { return new(disguise) }}
}

func (*disguise) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { d.Next(); return nil }

func (*disguise) WrapListener(ln net.Listener) net.Listener { return disguising{ln} }

type disguising struct{ net.Listener }

func (d disguising) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if secure, ok := c.(*tls.Conn); ok {
		return secureConn{c, secure}, err
	}
	return plainConn{c}, err
}

type plainConn struct{ net.Conn }

type secureConn struct {
	net.Conn
	secure *tls.Conn
}

func (c secureConn) ConnectionState() tls.ConnectionState {
	_ = c.secure.Handshake()
	return c.secure.ConnectionState()
}
