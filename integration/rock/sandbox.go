package rock

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// State is ROCK's own state of a sandbox.
type State string

// States, as ROCK writes them.
const (
	Pending   State = "pending"
	Running   State = "running"
	Stopped   State = "stopped"
	Archiving State = "archiving"
	Archived  State = "archived"
	Deleted   State = "deleted"
)

// Sandbox is one sandbox of a Cluster. The exported fields do not change after creation.
type Sandbox struct {
	ID       string
	Template string // as the caller named it
	Image    string // what it resolved to; the detail answers show this as templateID
	Metadata map[string]string
	Env      map[string]string
	CPUs     int
	MemoryMB int
	DiskMB   int

	cluster *Cluster
	owner   owner
	dir     string
	dead    chan struct{} // closed when the container has ended
	asked   chan struct{} // a get_status has come; holds one
	ended   sync.Once

	life sync.Mutex // one transition at a time

	mu        sync.Mutex
	state     State
	submitted bool
	hostIP    string
	ports     map[int]int
	phases    map[string]Phase
	history   []Transition
	created   time.Time
	started   time.Time
	minutes   int   // auto_clear_time
	expire    int64 // expire_time, Unix seconds
	hooks     []func()
	box       *run.Box
	boxErr    error
	listener  *Server

	made sync.Once // guards envd
	envd http.Handler
}

// owner is what the start headers say (contract 3.6).
type owner struct{ user, experiment, namespace, cluster, sealed string }

// State tells ROCK's state.
func (s *Sandbox) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Done is closed when the container has ended: killed, expired, crashed. ROCK's records may still say running then.
func (s *Sandbox) Done() <-chan struct{} { return s.dead }

// OnStop registers f to run once when the container ends, or at once if it has.
func (s *Sandbox) OnStop(f func()) {
	s.mu.Lock()
	select {
	case <-s.dead:
		s.mu.Unlock()
		f()
	default:
		s.hooks = append(s.hooks, f)
		s.mu.Unlock()
	}
}

// errDead says that there is no container to run anything in: what a proxy sees as connection refused by the rocklet.
var errDead = errors.New("rock: the container has ended")

// Box is where the sandbox's commands run and its files are, opened at the first call. errDead after the container's end. It belongs
// to the Sandbox; do not close it.
func (s *Sandbox) Box() (*run.Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.dead:
		return nil, errDead
	default:
	}
	if s.box == nil && s.boxErr == nil {
		s.box, s.boxErr = run.Open(run.Options{Root: s.dir, Env: s.Env, Isolation: s.cluster.opt.Isolation})
	}
	return s.box, s.boxErr
}

// Addr is the address of the sandbox's own listener, "" without Options.Listeners.
func (s *Sandbox) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr()
}

// handler is the sandbox's Envd handler.
func (s *Sandbox) handler() http.Handler {
	s.made.Do(func() {
		h := s.cluster.opt.Envd(s) // calls Box, so s.mu must be free
		if c, ok := h.(io.Closer); ok {
			s.OnStop(func() { _ = c.Close() })
		}
		s.envd = h
	})
	return s.envd
}

// Crash ends the container behind ROCK's back: state and records keep saying running.
func (s *Sandbox) Crash() { s.endContainer() }

// endContainer kills the commands, resets what hangs on the sandbox's own connections and runs the hooks.
func (s *Sandbox) endContainer() {
	s.ended.Do(func() {
		s.mu.Lock()
		close(s.dead)
		hooks, box, listener := s.hooks, s.box, s.listener
		s.hooks = nil
		s.mu.Unlock()
		if s.cluster.opt.Envd != nil {
			s.cluster.faults.Fire(Match{Sandbox: s.ID, Role: Proxy}, Reset)
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

// removeFiles deletes the root of a sandbox whose container has ended.
func (s *Sandbox) removeFiles() error {
	s.mu.Lock()
	box := s.box
	s.mu.Unlock()
	if box == nil {
		return nil
	}
	return run.Remove(s.dir) // may take long; the state can be asked for meanwhile
}

// move records a transition. The caller holds s.life.
func (s *Sandbox) move(to State, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, Transition{From: s.state, To: to, Event: event, Timestamp: stamp(s.cluster.opt.Now())})
	if n := len(s.history); n > 100 {
		s.history = s.history[n-100:]
	}
	s.state = to
}

// Stop takes the sandbox to Stopped, Archiving, Archived or Deleted the way ROCK does: the container ends first, then (after
// the cluster's evict delay) the state changes and both records go. ErrNotRunning when there is nothing to do.
func (s *Sandbox) Stop(to State) error {
	s.life.Lock()
	defer s.life.Unlock()
	from := s.State()
	if from == Deleted || from == to {
		return ErrNotRunning
	}
	live := from == Running || from == Pending
	s.endContainer()
	if live {
		s.Expires() // the last that is known of it
		c := s.cluster
		c.mu.Lock()
		wait := c.evictDelay
		c.mu.Unlock()
		if !c.sleep(wait) {
			return fmt.Errorf("rock: stop %s: cluster closed", s.ID)
		}
	}
	s.move(to, string(to))
	if live {
		s.evict()
	}
	if to == Deleted {
		return s.removeFiles()
	}
	return nil
}

// ErrNotRunning: see Stop.
var ErrNotRunning = errors.New("rock: sandbox is not running")

// start takes a new sandbox from its first record to running, in ROCK's steps.
func (s *Sandbox) start() error {
	c := s.cluster
	s.publish()
	s.publishTimeout()
	if !c.sleep(c.opt.SubmitDelay) {
		return errors.New("cluster closed")
	}
	s.mu.Lock()
	s.submitted = true
	s.hostIP = c.opt.HostIP
	s.mu.Unlock()
	s.publish()
	begun := c.opt.Now()
	if !c.sleep(c.opt.StartDelay) {
		return errors.New("cluster closed")
	}
	if c.opt.FailStart != nil {
		if err := c.opt.FailStart(s); err != nil {
			return s.startFailed(err)
		}
	}
	if c.opt.LazyAlive && !s.awaitStatus() {
		return errors.New("cluster closed")
	}
	s.life.Lock()
	defer s.life.Unlock()
	if s.State() != Pending {
		return errors.New("sandbox was deleted while it started")
	}
	if err := s.openPorts(); err != nil {
		return err
	}
	now := c.opt.Now()
	s.move(Running, "alive")
	s.mu.Lock()
	s.started = now
	s.phases = map[string]Phase{
		"image_pull": {Status: "success", Message: "ok"},
		"docker_run": {Status: "success", Message: "ok", Started: stamp(begun), Completed: stamp(now)},
	}
	s.mu.Unlock()
	s.publish()
	return nil
}

// awaitStatus waits for a get_status from now on, or for the end of the cluster, which it reports as false.
func (s *Sandbox) awaitStatus() bool {
	select {
	case <-s.asked: // one that came before
	default:
	}
	select {
	case <-s.asked:
		return true
	case <-s.cluster.ctx.Done():
		return false
	}
}

// startFailed leaves what ROCK leaves: a pending record with a failed phase, due at once.
func (s *Sandbox) startFailed(err error) error {
	s.mu.Lock()
	s.phases = map[string]Phase{
		"image_pull": {Status: "failed", Message: err.Error()},
		"docker_run": {Status: "waiting", Message: ""},
	}
	s.minutes, s.expire = 0, s.cluster.opt.Now().Unix()
	s.mu.Unlock()
	s.publish()
	s.publishTimeout()
	return err
}

// openPorts fills port_mapping. Only the envd port leads somewhere, and only with Options.Listeners.
func (s *Sandbox) openPorts() error {
	c := s.cluster
	c.mu.Lock()
	c.serial++
	n := c.serial
	c.mu.Unlock()
	base := 30000 + n%9000*3
	ports := map[int]int{22555: base + 1, 22: base + 2, 8080: base + 3}
	if c.opt.Backend == Kubernetes {
		ports = map[int]int{22555: 8000, 22: 22, 8080: 8080}
	}
	if c.opt.Envd != nil && c.opt.Listeners {
		srv, err := c.serve(Envd, "", s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler().ServeHTTP(w, r) }))
		if err != nil {
			return err
		}
		ports[49983] = srv.port()
		s.mu.Lock()
		s.listener = srv
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.ports = ports
	s.mu.Unlock()
	return nil
}

func (c *Cluster) sandboxDir(n int) string { return filepath.Join(c.dir, fmt.Sprintf("sandbox-%d", n)) }
