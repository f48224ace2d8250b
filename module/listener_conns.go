package module

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// connections are the connections of a front that were accepted under the same
// settings, and the server that speaks HTTP on them. A reload that changes the
// settings makes others, and leaves these to themselves.
type connections struct {
	front   *front
	clients string // the client certificates that were asked for
	server  *http.Server
	queue   *queue
	// requests are being served.
	requests atomic.Int64

	// The front's mu guards these.
	holders int // configs that add connections
	open    int
	retired bool // no connection is added any more
}

// all are the connections of every front.
var all sync.Map // *connections -> struct{}

// settingsOf names what holds for a connection as long as it lives.
func settingsOf(s *caddyhttp.Server, c *e2bcaddyfile.ListenerConfig, clients string) string {
	// Numbers, strings and slices of them cannot fail to be marshalled.
	k, _ := key(s.ReadTimeout, s.ReadHeaderTimeout, s.WriteTimeout, s.IdleTimeout, s.MaxHeaderBytes, s.Protocols,
		c.WithDefaults(), clients)
	return k
}

// waiting is how many connections may wait for their server. They are safe here;
// in the socket they came from, they would be reset when a reload closes it.
const waiting = 1024

// newConnections makes a server as Caddy makes its own (caddyhttp.App.Start),
// but for HTTP/2, which Caddy leaves at the defaults of net/http.
func newConnections(f *front, l *Listener) *connections {
	c := &connections{front: f, clients: l.clients, queue: &queue{conns: make(chan net.Conn, waiting), done: make(chan struct{})}}
	s, h2 := l.server, l.WithDefaults()
	c.server = &http.Server{
		ReadTimeout:       time.Duration(s.ReadTimeout),
		ReadHeaderTimeout: time.Duration(s.ReadHeaderTimeout),
		WriteTimeout:      time.Duration(s.WriteTimeout),
		IdleTimeout:       time.Duration(s.IdleTimeout),
		MaxHeaderBytes:    s.MaxHeaderBytes,
		Handler:           c,
		ErrorLog:          log.New(serverLog{}, "", 0),
		Protocols:         new(http.Protocols),
		ConnContext:       connContext,
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				takeOver(conn)
			}
			if state == http.StateClosed || state == http.StateHijacked {
				c.closed()
			}
		},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          h2.MaxConcurrentStreams,
			MaxReceiveBufferPerConnection: int(h2.ConnectionWindow),
			MaxReceiveBufferPerStream:     int(h2.StreamWindow),
			SendPingTimeout:               time.Duration(h2.PingInterval),
			PingTimeout:                   time.Duration(h2.PingTimeout),
			WriteByteTimeout:              time.Duration(h2.WriteTimeout),
		},
	}
	speaks := func(protocol string) bool { return slices.Contains(s.Protocols, protocol) }
	c.server.Protocols.SetHTTP1(speaks("h1"))
	c.server.Protocols.SetHTTP2(speaks("h2"))
	// For h2 too: a wrapper may have made something else of a TLS connection,
	// and net/http knows HTTP/2 over TLS on its own type only.
	c.server.Protocols.SetUnencryptedHTTP2(speaks("h2") || speaks("h2c"))
	all.Store(c, struct{}{})
	go func() { _ = c.server.Serve(c.queue) }() // until end
	return c
}

// serve hands a connection to the server. It reports false when that has ended.
func (c *connections) serve(conn net.Conn) bool {
	switch of := conn.(type) {
	case *net.TCPConn:
		conn = newClientConn(of)
	case *tls.Conn:
	case stater:
		conn = disguised{conn, of}
	}
	select {
	case c.queue.conns <- conn:
	case <-c.queue.done:
		return false
	}
	select {
	case <-c.queue.done:
		c.queue.empty()
	default:
	}
	return true
}

// ServeHTTP serves a request on one of the connections.
func (c *connections) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	defer c.requests.Add(-1)
	if state, ok := r.Context().Value(tlsStateKey{}).(func() *tls.ConnectionState); ok && r.TLS == nil {
		r.TLS = state()
	}
	if r.ProtoMajor == 2 {
		onHTTP2.serve(c.front, w, r)
		return
	}
	c.front.ServeHTTP(w, r)
}

// onHTTP2 serve the requests that come over HTTP/2.
var onHTTP2 workers

// closed counts a connection out.
func (c *connections) closed() {
	c.front.mu.Lock()
	defer c.front.mu.Unlock()
	c.open--
	c.front.drop(c)
}

// retirePause is the time between two looks whether requests run.
const retirePause = 20 * time.Millisecond

// retire closes the connections: those without a request at once, the others
// when theirs have ended. GOAWAY, which ends the streams of some clients, is not
// sent before. What is left when ctx ends is cut.
func (c *connections) retire(ctx context.Context) {
	c.server.SetKeepAlivesEnabled(false)
	poll := time.NewTicker(retirePause)
	defer poll.Stop()
	for c.requests.Load() > 0 && ctx.Err() == nil {
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
	_ = c.server.Shutdown(ctx)
	_ = c.server.Close()
	c.front.mu.Lock()
	defer c.front.mu.Unlock()
	c.front.forget(c)
}

// queue is the listener of connections: what comes in was accepted elsewhere.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Accept implements [net.Listener].
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	q.empty()
	return nil
}

// empty closes what waits for a server that has ended.
func (q *queue) empty() {
	for {
		select {
		case c := <-q.conns:
			c.Close()
		default:
			return
		}
	}
}

// Addr implements [net.Listener].
func (q *queue) Addr() net.Addr { return &net.UnixAddr{Name: name, Net: "e2b"} }

// stater is a TLS connection of whatever type.
type stater interface{ ConnectionState() tls.ConnectionState }

// disguised is a TLS connection of another type than net/http knows. net/http
// must not see that it is one, or it speaks no HTTP/2 on it.
type disguised struct {
	net.Conn
	secure stater
}

type tlsStateKey struct{}

// connContext is the context of a connection's requests. It remembers the TLS
// state of a disguised one.
func connContext(ctx context.Context, c net.Conn) context.Context {
	d, ok := c.(disguised)
	if !ok {
		return withCancel(ctx, c)
	}
	return context.WithValue(ctx, tlsStateKey{}, sync.OnceValue(func() *tls.ConnectionState {
		state := d.secure.ConnectionState()
		return &state
	}))
}

// serverLog takes what net/http has to say, to the log of the config that is
// current. As in Caddy's own servers only a panic is worth more than debugging.
type serverLog struct{}

// Write implements [io.Writer].
func (serverLog) Write(p []byte) (int, error) {
	logger := caddy.Log().Named("http.stdlib")
	if text := strings.TrimSuffix(string(p), "\n"); isPanic(text) {
		logger.Error(text)
	} else {
		logger.Debug(text)
	}
	return len(p), nil
}

// isPanic reports what net/http says of a handler that has panicked, over either protocol.
func isPanic(text string) bool {
	return strings.HasPrefix(text, "http: panic serving") || strings.HasPrefix(text, "http2: panic serving")
}
