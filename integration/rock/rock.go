// Package rock is the ROCK double: one ROCK deployment (admin role, proxy role, registry records) for the gateway's tests and for the demo.
// It answers as ROCK's E2B guide and the contract read from its source say, misleading answers included; commands really run
// and files really exist, below one temporary root per sandbox (package run). On the sockets of [Cluster.Serve] a switchboard
// ([Faults]) breaks answers at a chosen byte and a log ([Log]) keeps what arrived.
//
// What must never enter here: code of the gateway, fixes of ROCK's behaviour that would be nicer for clients, and anything that the
// production binary links.
package rock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/integration/heldport"
	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// Version is the envdVersion of every answer.
const Version = "0.3.0"

// Role is one of ROCK's two processes, or a sandbox's own listener.
type Role string

// Roles.
const (
	Admin Role = "admin"
	Proxy Role = "proxy"
	Envd  Role = "envd"
	// Rocklet is ROCK's agent in a sandbox.
	Rocklet Role = "rocklet"
)

// Backend decides the shape of the registry records (contract 3.4).
type Backend string

// Backends. OpenSandbox records never get an address, so E2B create, get and list fail for them as they do in ROCK.
const (
	Ray         Backend = "ray"
	Kubernetes  Backend = "k8s"
	OpenSandbox Backend = "opensandbox"
)

// Template is a ready ROCK template: the image and resources that templateID stands for.
type Template struct {
	Image    string
	CPUs     int
	MemoryMB int
	DiskMB   int
}

// Options of a Cluster. The zero value is a fast Ray deployment in memory.
type Options struct {
	// Records receives the registry records. Default: a new MemoryRecords.
	Records Records
	// TempDir is the parent of the temporary roots. Default: os.TempDir().
	TempDir string
	// Isolation of commands. Default: the strongest the machine permits.
	Isolation run.Isolation
	// Backend of the records. Default: Ray.
	Backend Backend
	// Templates that are ready, by templateID. Anything else is a cold start with templateID as the image.
	Templates map[string]Template
	// Now is the clock of timestamps and expiry. Default: time.Now.
	Now func() time.Time
	// SubmitDelay passes between the first pending record and the one with host_ip. Default: 0.
	SubmitDelay time.Duration
	// StartDelay passes between submission and the alive event. Default: 0.
	StartDelay time.Duration
	// LazyAlive makes the alive event wait for a get_status, as ROCK's does but for its reconciler. Default: it comes by itself.
	LazyAlive bool
	// FailStart, when it returns an error, fails the start after StartDelay: a failed phase on a pending record.
	FailStart func(*Sandbox) error
	// EvictDelay passes between the end of the container and the eviction of its records. Default: 0. See Cluster.SetEvictDelay.
	EvictDelay time.Duration
	// ScanInterval of the expiry scan. Default: 180s. Negative: no scan but Cluster.Scan.
	ScanInterval time.Duration
	// ReconcileInterval is how often the admin role looks at restarted sandboxes by itself; get_status finds them running at once.
	// Default: 30s. Negative: never.
	ReconcileInterval time.Duration
	// MaxCommands running in the proxy role at once. Default: 1024.
	MaxCommands int
	// HostIP of the records. Default: 127.0.0.1.
	HostIP string
	// EncryptKey for rock_authorization_encrypted. Default: ROCK's sample key, all zero.
	EncryptKey [32]byte
	// Pause adds POST /sandboxes/{id}/pause, which ROCK lacks, to the admin role.
	Pause bool
	// Envd replaces ROCK's own data plane (nil) by a handler per sandbox, made at the sandbox's first request. A handler that is
	// an io.Closer is closed when the container ends. In-flight exchanges are reset then, as when a container dies.
	Envd func(*Sandbox) http.Handler
	// Listeners true serves each sandbox's Envd handler on a loopback socket of its own and publishes it as port_mapping["49983"].
	Listeners bool
	// EnvdPort chooses the port of that socket, as a host does that gives an address away again. A create fails when something listens
	// there. Default (nil or 0): a free one.
	EnvdPort func(*Sandbox) int
	// Rocklet true serves each sandbox's rocklet on a loopback socket of its own and publishes it as port_mapping["22555"]. It forwards to
	// what Sandbox.Listen has opened, and to the Envd handler at 49983.
	Rocklet bool
	// RockletPing is how often the rocklet's web server pings a port-forward, and how long it waits for the answer before it closes with
	// 1011. Default: 20s, uvicorn's.
	RockletPing time.Duration
	// HostNetwork lets the rocklet forward to the machine's own 127.0.0.1:port where Sandbox.Listen has not opened the port: that is where
	// the servers of commands listen, because sandboxes of the double have no network of their own.
	HostNetwork bool
	// Published are the ports inside each sandbox that its record maps to a loopback port. Nothing answers there before Sandbox.Listen.
	Published []int
	// LogSize bounds the request log. Default: 4096 requests.
	LogSize int
}

// Cluster is one ROCK deployment.
type Cluster struct {
	opt    Options
	dir    string
	faults *Faults
	log    *Log

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup // creations, commands, scans, exchanges

	mu         sync.Mutex
	closed     bool
	sandboxes  map[string]*Sandbox
	servers    map[*Server]struct{}
	kept       map[*heldport.Port]struct{} // of all sandboxes
	evictDelay time.Duration
	serial     int
	commands   int
	recordErr  error
}

// New opens a cluster. Close it.
func New(o Options) (*Cluster, error) {
	if o.Records == nil {
		o.Records = NewMemoryRecords()
	}
	if o.Backend == "" {
		o.Backend = Ray
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ScanInterval == 0 {
		o.ScanInterval = 180 * time.Second
	}
	if o.ReconcileInterval == 0 {
		o.ReconcileInterval = 30 * time.Second
	}
	if o.MaxCommands == 0 {
		o.MaxCommands = 1024
	}
	if o.HostIP == "" {
		o.HostIP = "127.0.0.1"
	}
	if o.RockletPing == 0 {
		o.RockletPing = 20 * time.Second
	}
	if o.LogSize == 0 {
		o.LogSize = 4096
	}
	dir, err := os.MkdirTemp(o.TempDir, "rock-double-")
	if err != nil {
		return nil, fmt.Errorf("rock: temporary root: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("rock: temporary root: %w", err)
	}
	c := &Cluster{
		opt: o, dir: dir, evictDelay: o.EvictDelay,
		faults: newFaults(), log: newLog(o.LogSize),
		sandboxes: make(map[string]*Sandbox), servers: make(map[*Server]struct{}), kept: make(map[*heldport.Port]struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if o.ScanInterval > 0 {
		c.tasks.Add(1)
		go c.every(o.ScanInterval, c.Scan)
	}
	if o.ReconcileInterval > 0 {
		c.tasks.Add(1)
		go c.every(o.ReconcileInterval, c.Reconcile)
	}
	return c, nil
}

// Faults is the switchboard of all servers of this cluster.
func (c *Cluster) Faults() *Faults { return c.faults }

// Log keeps the requests of all servers of this cluster.
func (c *Cluster) Log() *Log { return c.log }

// Records is the sink given in Options, or the MemoryRecords made in its place.
func (c *Cluster) Records() Records { return c.opt.Records }

// SetEvictDelay changes Options.EvictDelay for the stops that follow.
func (c *Cluster) SetEvictDelay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictDelay = d
}

// RecordError is the last error of Records. ROCK itself logs such errors and goes on, and so does the double.
func (c *Cluster) RecordError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recordErr
}

// Sandbox finds a sandbox in any state, nil when there never was one.
func (c *Cluster) Sandbox(id string) *Sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sandboxes[id]
}

// Close stops the servers (connections just close), kills all commands and deletes the temporary roots. Records are left as they are,
// as when ROCK's processes end.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	servers := make([]*Server, 0, len(c.servers))
	for s := range c.servers {
		servers = append(servers, s)
	}
	sandboxes := make([]*Sandbox, 0, len(c.sandboxes))
	for _, s := range c.sandboxes {
		sandboxes = append(sandboxes, s)
	}
	kept := slices.Collect(maps.Keys(c.kept))
	c.mu.Unlock()

	c.cancel()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	for _, s := range sandboxes {
		s.container().end()
	}
	c.tasks.Wait()
	c.freePorts(kept...)
	for _, s := range sandboxes {
		errs = append(errs, s.removeFiles())
	}
	errs = append(errs, run.Remove(c.dir))
	return errors.Join(errs...)
}

// sleep waits for d or for the end of the cluster, which it reports as false.
func (c *Cluster) sleep(d time.Duration) bool {
	if d <= 0 {
		return c.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// task runs f in a goroutine that Close waits for; false when the cluster is closed already.
func (c *Cluster) task(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(f)
	return true
}
