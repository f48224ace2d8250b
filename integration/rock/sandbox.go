package rock

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/integration/heldport"
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
	asked   chan struct{} // a get_status has come; holds one

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
	present   *container
	stopped   time.Time        // when ROCK began to stop it
	up        time.Time        // when a restarted container was begun that has come up and waits for its alive event
	recorded  bool             // there may be a record of it
	kept      []*heldport.Port // that a record of it may name
	published map[int]string   // the address of a port of Options.Published, by the port inside
	servers   map[int]string   // address of what listens on a port inside
	spoiled   Spoiled

	forwards atomic.Int32
}

// owner is what the start headers say (contract 3.6).
type owner struct{ user, experiment, namespace, cluster, sealed string }

// State tells ROCK's state.
func (s *Sandbox) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// container is the sandbox's present life, or its last one.
func (s *Sandbox) container() *container {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present
}

// Done is closed when the present container has ended: killed, expired, crashed. ROCK's records may still say running then.
func (s *Sandbox) Done() <-chan struct{} { return s.container().dead }

// OnStop registers f to run once when the present container ends, or at once if it has.
func (s *Sandbox) OnStop(f func()) { s.container().onStop(f) }

// Box is where the sandbox's commands run and its files are, opened at the first call of each life. It fails after the container's end. It
// belongs to the Sandbox; do not close it.
func (s *Sandbox) Box() (*run.Box, error) { return s.container().open() }

// Addr is the address of the sandbox's own listener, "" without Options.Listeners.
func (s *Sandbox) Addr() string { return s.container().addr() }

// Port is that of Addr, 0 without Options.Listeners.
func (s *Sandbox) Port() int {
	_, port, _ := net.SplitHostPort(s.Addr())
	n, _ := strconv.Atoi(port)
	return n
}

// Crash ends the container behind ROCK's back: state and records keep saying running.
func (s *Sandbox) Crash() { s.container().end() }

// removeFiles deletes the root of a sandbox whose container has ended.
func (s *Sandbox) removeFiles() error {
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
	if live {
		s.mu.Lock()
		s.stopped = s.cluster.opt.Now()
		s.mu.Unlock()
	}
	s.container().end()
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
	if to != Deleted {
		return nil
	}
	s.leavePorts()
	return s.removeFiles()
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
	return s.alive(begun)
}

// alive is the event that makes a pending sandbox run.
func (s *Sandbox) alive(begun time.Time) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.State() != Pending {
		return errors.New("sandbox was deleted while it started")
	}
	if err := s.openPorts(); err != nil {
		return err
	}
	now := s.cluster.opt.Now()
	s.move(Running, "alive")
	s.mu.Lock()
	s.started = now
	s.phases = map[string]Phase{
		"image_pull": {Status: "success", Message: "ok"},
		"docker_run": {Status: "success", Message: "ok", Started: stamp(begun), Completed: stamp(now)},
	}
	s.up = time.Time{}
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

// openPorts fills port_mapping. Of its ports lead somewhere: envd's with Options.Listeners, the rocklet's with Options.Rocklet, and
// those of Options.Published.
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
	if c.opt.Envd != nil && (c.opt.Listeners || c.opt.Rocklet) {
		port, err := s.container().listen()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.servers[49983] = s.present.addr()
		s.mu.Unlock()
		if c.opt.Listeners {
			ports[49983] = port
		}
	}
	if err := s.openDoors(ports); err != nil {
		return err
	}
	s.mu.Lock()
	s.ports = ports
	s.mu.Unlock()
	return nil
}

func (c *Cluster) sandboxDir(n int) string { return filepath.Join(c.dir, fmt.Sprintf("sandbox-%d", n)) }
