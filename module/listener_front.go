package module

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// fronts are the listen addresses in use, by network and address. Not by the
// name of the server: the Caddyfile numbers servers, so a site that is added
// gives the others new names, and the connections of one server must never be
// served by another.
var fronts = caddy.NewUsagePool() // address -> *front

// front is a listen address and the connections that it has accepted. It serves
// each request with the newest config that has the address.
type front struct {
	newest atomic.Pointer[caddyhttp.Server]

	mu      sync.Mutex
	members []*member               // oldest first
	conns   map[string]*connections // by settings
}

// member is a front in one config.
type member struct {
	front   *front
	server  *caddyhttp.Server
	clients string
	conns   *connections
	started bool
}

// join adds a config. It serves nothing before it is promoted, unless no other
// config has been.
func (f *front) join(l *Listener) *member {
	settings := settingsOf(l.server, &l.ListenerConfig, l.clients)
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.conns[settings]
	if c == nil || c.retired {
		c = newConnections(f, l)
		if f.conns == nil {
			f.conns = map[string]*connections{}
		}
		f.conns[settings] = c
	}
	c.holders++
	m := &member{front: f, server: l.server, clients: l.clients, conns: c}
	f.members = append(f.members, m)
	f.choose()
	return m
}

// promote makes a config the one that serves. Connections that were accepted
// under other rules about client certificates end with their requests.
func (f *front) promote(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.started = true
	f.choose()
	for _, c := range f.conns {
		if c.clients != m.clients && !c.retired {
			c.retired = true
			go c.retire(context.Background())
		}
	}
}

// part takes a config out. If it failed to start, its predecessor goes on.
func (f *front) part(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, other := range f.members {
		if other == m {
			f.members = append(f.members[:i:i], f.members[i+1:]...)
			break
		}
	}
	f.choose()
	m.conns.holders--
	f.drop(m.conns)
}

// choose sets the config that serves. The caller holds mu.
func (f *front) choose() {
	if m := f.chosen(); m != nil {
		f.newest.Store(m.server)
	} else {
		f.newest.Store(nil)
	}
}

func (f *front) chosen() *member {
	for i := len(f.members) - 1; i >= 0; i-- {
		if f.members[i].started {
			return f.members[i]
		}
	}
	if len(f.members) > 0 {
		return f.members[len(f.members)-1]
	}
	return nil
}

// drop forgets connections that are none any more and to which no config adds.
// The caller holds mu.
func (f *front) drop(c *connections) {
	if c.holders == 0 && c.open == 0 {
		f.forget(c)
	}
}

// forget ends connections. The caller holds mu.
func (f *front) forget(c *connections) {
	for settings, other := range f.conns {
		if other == c {
			delete(f.conns, settings)
		}
	}
	c.queue.Close()
	all.Delete(c)
}

// ServeHTTP serves a request with the newest config.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	server := f.newest.Load()
	if server == nil {
		// The address is in no config any more, and the connection lives for
		// another request only. The next one must come on another connection.
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	server.ServeHTTP(w, r)
}

// Destruct ends the connections once their requests have ended: no config has
// the address any more.
func (f *front) Destruct() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if !c.retired {
			c.retired = true
			go c.retire(context.Background())
		}
	}
	return nil
}

// take takes over a connection that the config's listener accepted.
func (m *member) take(c net.Conn) {
	m.front.mu.Lock()
	to := m.conns
	if to.retired || to.holders == 0 {
		// The listener of a config that was replaced accepts for a moment
		// longer than that config has connections of its own.
		now := m.front.chosen()
		if now == nil || now.clients != m.clients || now.conns.retired {
			m.front.mu.Unlock()
			c.Close()
			return
		}
		to = now.conns
	}
	to.open++
	m.front.mu.Unlock()
	if !to.serve(c) {
		to.closed()
		c.Close()
	}
}
