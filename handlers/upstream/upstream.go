// Package upstream is the client side of a proxied request: it dials, pools
// connections by the life of a sandbox, and sends each request at most once.
//
// It knows addresses and bytes. Which address, and what an error means to a
// client, is decided elsewhere.
package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-e2b/gateway/handlers/upstream/h1"
)

// Config tunes a [Transport]. Zero values mean the defaults.
type Config struct {
	// DialTimeout bounds one connection attempt, TLS included. Default: 3s.
	DialTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. It must be below
	// the idle limit of the next hop, or a request meets a connection that is
	// being closed: ROCK closes after 30s. Default: 25s.
	IdleTimeout time.Duration
	// MaxIdlePerLifecycle is how many unused connections are kept for one
	// life of a sandbox at one address. Default: 32.
	MaxIdlePerLifecycle int
	// MaxIdle is how many unused connections are kept in all. Default: 8192.
	MaxIdle int
	// KeepAlive is the interval of TCP keepalive probes. They are sent while
	// nothing else is. A peer that answers none of three is dead: it is found
	// out after 4 intervals. Default: 15s.
	KeepAlive time.Duration
	// UserTimeout is how long a peer may acknowledge nothing of what was sent
	// (it is dead, and no probes are sent then), or take nothing (its machine
	// lives, but the process does not read). After that the connection is cut.
	// Negative means never: the system's own limit holds, as it does on any
	// other system than Linux. Default: 5m.
	UserTimeout time.Duration
	// TLS is used for https upstreams. Default: the system's roots.
	TLS *tls.Config
	// Client is what sends plain HTTP/1.1. Default: Lean.
	Client Client
	// Meter counts the connections. Transports may share one. Default: one of its own.
	Meter *Meter
}

func (c Config) withDefaults() Config {
	c.DialTimeout = cmp.Or(c.DialTimeout, 3*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 25*time.Second)
	c.MaxIdlePerLifecycle = cmp.Or(c.MaxIdlePerLifecycle, 32)
	c.MaxIdle = cmp.Or(c.MaxIdle, 8192)
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	c.UserTimeout = cmp.Or(c.UserTimeout, 5*time.Minute)
	c.Client = cmp.Or(c.Client, Lean)
	if c.Meter == nil {
		c.Meter = new(Meter)
	}
	return c
}

// Client is an implementation of HTTP/1.1.
type Client string

const (
	// Lean is the client of this module, which has no goroutines for its connections.
	// Where the system has no calls for it, and for TLS, HTTP/2 and tunnels, it is
	// [Standard] all the same.
	Lean Client = "lean"
	// Standard is net/http's.
	Standard Client = "standard"
)

// DialError says that no connection could be made, so not a byte of the
// request was written: it may be sent to another address.
type DialError struct{ Err error }

func (e *DialError) Error() string { return "dial: " + e.Err.Error() }
func (e *DialError) Unwrap() error { return e.Err }

// SchemeH2C is the URL.Scheme of a request that is to be sent by HTTP/2 without
// TLS, of which the next hop is known to speak it (RFC 9113 section 3.3).
const SchemeH2C = "h2c"

// Transport is an HTTP client for sandboxes: HTTP/1.1, unless a request's scheme
// is [SchemeH2C]. It never looks at proxy settings of the environment, never asks
// for or undoes compression, and never sends a request of which a byte was written
// a second time.
type Transport struct {
	lean        *h1.Client // nil: standard sends what it would
	standard    *http.Transport
	h2          *http.Transport
	dialer      net.Dialer
	dialTimeout time.Duration
	userTimeout time.Duration
	refusalWait time.Duration
	tls         *tls.Config
	meter       *Meter
}

// New makes a Transport.
func New(c Config) *Transport {
	c = c.withDefaults()
	t := &Transport{
		dialTimeout: c.DialTimeout,
		userTimeout: c.UserTimeout,
		refusalWait: refusalWait,
		tls:         c.TLS,
		meter:       c.Meter,
	}
	t.dialer = net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: c.KeepAlive, Interval: c.KeepAlive, Count: probes},
	}
	t.standard = &http.Transport{
		Proxy:               nil,
		DialContext:         t.dial,
		DialTLSContext:      t.dialTLS,
		DisableCompression:  true,
		MaxIdleConns:        c.MaxIdle,
		MaxIdleConnsPerHost: c.MaxIdlePerLifecycle,
		IdleConnTimeout:     c.IdleTimeout,
		// A body that waits for "100 Continue" is sent after this time all the
		// same (RFC 9110 section 10.1.1 allows both).
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		// A request's head fits, and longer bodies go past the buffer. What is
		// read comes from conn's buffer.
		WriteBufferSize: 768,
		ReadBufferSize:  256,
		// An empty map keeps HTTP/2 off: one connection for many sandboxes
		// would let one reset end all of their streams.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	t.h2 = newH2C(c, t.dial)
	if c.Client == Lean {
		t.lean = newLean(c, t)
	}
	return t
}

// probes is how many keepalive probes a dead peer gets.
const probes = 3

// RoundTrip sends a request whose URL.Host was made by [Host] or [TunnelHost].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme == SchemeH2C:
		return t.roundTripH2C(r)
	case t.lean != nil && r.URL.Scheme == "http" && !isTunnel(r.URL.Host):
		return t.lean.RoundTrip(r)
	}
	var on *conn
	resp, err := t.standard.RoundTrip(once(r, &on))
	if err == nil && on != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = body{resp.Body, on}
	}
	return resp, err
}

// CloseIdle closes the connections that are not in use.
func (t *Transport) CloseIdle() {
	if t.lean != nil {
		t.lean.CloseIdle()
	}
	t.standard.CloseIdleConnections()
	t.h2.CloseIdleConnections()
}

// Idle is how many connections of the lean client are not in use. The others' are not
// known.
func (t *Transport) Idle() int {
	if t.lean == nil {
		return 0
	}
	return t.lean.Idle()
}

// once makes net/http send r at most once. http.Transport repeats GET, HEAD,
// OPTIONS and TRACE that have no body or can rewind it, and anything with an
// Idempotency-Key, when a reused connection ends before the first byte of the
// answer, although the next hop may have acted on it (Request.isReplayable).
// The marks by which it decides are taken away from a copy of r; what goes over
// the wire stays the same. on is set to the connection that the request is sent
// on.
func once(r *http.Request, on **conn) *http.Request {
	c := r.WithContext(traced(r.Context(), on))
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		c.GetBody = nil
		if r.Body == nil || r.Body == http.NoBody {
			c.Body = emptyBody{}
		}
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := r.Header[name]; ok {
			c.Header = c.Header.Clone()
			delete(c.Header, name)
			c.Header[strings.ToLower(name)] = v
		}
	}
	return c
}

// emptyBody is a body that net/http does not know to be empty until it has
// read it. It then sends none.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

func (t *Transport) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	defer timeDial(ctx)()
	ctx, cancel := context.WithTimeout(ctx, t.dialTimeout)
	defer cancel()
	raw, to, err := t.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	meter := t.meter.of(to.address)
	if to.inside == 0 {
		plain := newConn(raw, t.userTimeout)
		if counted, ok := plain.(*conn); ok {
			meter.opened(counted)
		}
		return plain, nil
	}
	inside, err := t.forward(ctx, raw, to)
	if err != nil {
		meter.notDialed(DialTunnel, err)
		return nil, &DialError{err}
	}
	meter.opened(inside.conn)
	return inside, nil
}

// connect makes a connection to where the pool key addr leads. Its error is a
// [DialError].
func (t *Transport) connect(ctx context.Context, network, addr string) (net.Conn, destination, error) {
	to, err := splitHost(addr)
	if err != nil {
		return nil, to, &DialError{err}
	}
	meter := t.meter.of(to.address)
	conn, err := t.dialer.DialContext(ctx, network, to.address)
	if err != nil {
		meter.notDialed(whyNotDialed(err), err)
		return nil, to, &DialError{err}
	}
	meter.dialed.Add(1)
	return conn, to, nil
}

func (t *Transport) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := t.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	defer timeDial(ctx)() // the handshake
	to, _ := splitHost(addr)
	cfg := &tls.Config{}
	if t.tls != nil {
		cfg = t.tls.Clone()
	}
	if cfg.ServerName == "" {
		// The name in the certificate is the real host's, not the pool key's.
		cfg.ServerName, _, _ = net.SplitHostPort(to.address)
	}
	ctx, cancel := context.WithTimeout(ctx, t.dialTimeout)
	defer cancel()
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		t.meter.of(to.address).notDialed(DialTLS, err)
		return nil, &DialError{fmt.Errorf("TLS: %w", err)}
	}
	return conn, nil
}

// NobodyThere reports a dial error that says something about the other side: it
// refuses, or cannot be reached, or does not answer. Any other (no file
// descriptor, no free port) is the gateway's own trouble.
func NobodyThere(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || Silent(err)
}

// Silent reports a dial error that did not come from the other side: no answer came,
// or the network knows no way. The machine may be gone, or packets are being lost.
func Silent(err error) bool {
	var timeout net.Error
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH) || errors.As(err, &timeout) && timeout.Timeout()
}

// Refused reports a dial error that came from a machine that is up: nothing
// listens on the port. It says nothing about the sandbox's other ports.
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
