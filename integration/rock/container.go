package rock

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// container is one life of a sandbox: what runs between a start and the stop that follows. The files are the sandbox's and outlive it.
type container struct {
	s     *Sandbox
	dead  chan struct{} // closed when the container has ended
	ended sync.Once

	mu       sync.Mutex
	hooks    []func()
	box      *run.Box
	boxErr   error
	listener *Server

	made sync.Once // guards envd
	envd http.Handler
}

func newContainer(s *Sandbox) *container { return &container{s: s, dead: make(chan struct{})} }

// errDead says that there is no container to run anything in: what a proxy sees as connection refused by the rocklet.
var errDead = errors.New("rock: the container has ended")

// over reports that the container has ended.
func (c *container) over() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// onStop registers f to run once when the container ends, or at once if it has.
func (c *container) onStop(f func()) {
	c.mu.Lock()
	if c.over() {
		c.mu.Unlock()
		f()
		return
	}
	c.hooks = append(c.hooks, f)
	c.mu.Unlock()
}

// open is where the container's commands run and its files are, opened at the first call. errDead after its end.
func (c *container) open() (*run.Box, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return nil, errDead
	}
	if c.box == nil && c.boxErr == nil {
		c.box, c.boxErr = run.Open(run.Options{Root: c.s.dir, Env: c.s.Env, Isolation: c.s.cluster.opt.Isolation})
	}
	return c.box, c.boxErr
}

// handler is the sandbox's Envd handler in this life.
func (c *container) handler() http.Handler {
	c.made.Do(func() {
		h := c.s.cluster.opt.Envd(c.s) // opens the box, so c.mu must be free
		if closer, ok := h.(io.Closer); ok {
			c.onStop(func() { _ = closer.Close() })
		}
		c.envd = h
	})
	return c.envd
}

// listen serves the Envd handler at an address of its own and returns the port.
func (c *container) listen() (int, error) {
	number := 0
	if choose := c.s.cluster.opt.EnvdPort; choose != nil {
		number = choose(c.s)
	}
	srv, err := c.s.listen(Envd, number, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handler().ServeHTTP(w, r) }))
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.listener = srv
	c.mu.Unlock()
	return srv.port(), nil
}

// addr is the address of the container's own listener, "" without Options.Listeners.
func (c *container) addr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener == nil {
		return ""
	}
	return c.listener.Addr()
}

// end kills the commands, resets what hangs on the sandbox's own connections and runs the hooks.
func (c *container) end() {
	c.ended.Do(func() {
		c.mu.Lock()
		close(c.dead)
		hooks, box, listener := c.hooks, c.box, c.listener
		c.hooks = nil
		c.mu.Unlock()
		if c.s.cluster.opt.Envd != nil {
			c.s.cluster.faults.Fire(Match{Sandbox: c.s.ID, Role: Proxy}, Reset)
		}
		if listener != nil {
			listener.ResetAll()
			_ = listener.Close()
		}
		if box != nil {
			_ = box.Close()
		}
		for _, f := range hooks {
			f()
		}
	})
}
