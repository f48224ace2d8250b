package rock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server is one address of one role.
type Server struct {
	cluster *Cluster
	role    Role
	sandbox string // set on a sandbox's own listener
	handler http.Handler
	ln      net.Listener
	http    *http.Server
	stopped chan struct{}
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

type connKey struct{}

// Serve opens an address for a role. Call it several times for several addresses. address is "ip:port"; default (""): a free
// loopback port.
func (c *Cluster) Serve(role Role, address string) (*Server, error) {
	switch role {
	case Admin:
		return c.serve(role, address, nil, c.Admin())
	case Proxy:
		return c.serve(role, address, nil, c.Proxy())
	}
	return nil, fmt.Errorf("rock: serve: no role %q", role)
}

func (c *Cluster) serve(role Role, address string, sandbox *Sandbox, h http.Handler) (*Server, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("rock: serve %s: %w", role, err)
	}
	s := &Server{cluster: c, role: role, handler: h, ln: ln, stopped: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	if sandbox != nil {
		s.sandbox = sandbox.ID
	}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	s.http = &http.Server{
		Handler:           s,
		IdleTimeout:       30 * time.Second, // uvicorn's keep-alive as ROCK sets it
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ConnState: func(conn net.Conn, st http.ConnState) {
			s.mu.Lock()
			defer s.mu.Unlock()
			switch st {
			case http.StateNew:
				s.conns[conn] = struct{}{}
			case http.StateClosed, http.StateHijacked:
				delete(s.conns, conn)
			}
		},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		s.cancel()
		_ = ln.Close()
		return nil, errors.New("rock: serve: cluster closed")
	}
	c.servers[s] = struct{}{}
	go func() {
		defer close(s.stopped)
		_ = s.http.Serve(ln) // always http.ErrServerClosed or the listener's end
	}()
	return s, nil
}

// Addr is "ip:port".
func (s *Server) Addr() string { return s.ln.Addr().String() }

// URL is "http://ip:port".
func (s *Server) URL() string { return "http://" + s.Addr() }

func (s *Server) port() int { return s.ln.Addr().(*net.TCPAddr).Port }

// Conns counts the open connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// ResetAll sends RST on every open connection, idle ones too.
func (s *Server) ResetAll() {
	s.mu.Lock()
	conns := make([]net.Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
}

// Close stops listening and closes every connection; later dials are refused.
func (s *Server) Close() error {
	s.cancel()
	err := s.http.Close()
	<-s.stopped
	s.cluster.mu.Lock()
	delete(s.cluster.servers, s)
	s.cluster.mu.Unlock()
	return err
}

// ServeHTTP puts one request under the switchboard and into the log.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, ok := r.Context().Value(connKey{}).(*net.TCPConn)
	if !ok {
		http.Error(w, "not a TCP connection", http.StatusInternalServerError)
		return
	}
	user, _, _ := r.BasicAuth()
	x := &exchange{
		role: s.role, addr: s.Addr(), sandbox: s.sandboxOf(r), method: r.Method, path: r.URL.Path, user: user,
		rw: w, conn: conn, request: r.Body, cut: make(chan Kind, 1), header: make(http.Header), declared: -1,
	}
	entry := s.cluster.log.begin(x, r)
	s.cluster.faults.enter(x)
	defer func() {
		s.cluster.faults.leave(x)
		x.mu.Lock()
		entry.finish(x.status, x.wrote)
		x.mu.Unlock()
	}()
	x.run(r.Context(), s.ctx, s.cluster.task, func(ctx context.Context) {
		inner := r.WithContext(ctx)
		inner.Body = entry.body(r.Body)
		s.handler.ServeHTTP(x, inner)
	})
}

func (s *Server) sandboxOf(r *http.Request) string {
	if s.sandbox != "" {
		return s.sandbox
	}
	if id := r.Header.Get("E2b-Sandbox-Id"); id != "" {
		return id
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/sandboxes/"); ok {
		id, _, _ := strings.Cut(rest, "/")
		return id
	}
	return r.URL.Query().Get("sandbox_id")
}
