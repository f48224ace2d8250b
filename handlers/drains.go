package handlers

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Drains is what operators have taken out of service while the gateway runs:
// sandboxes, and clusters. It is shared by all gateways of a process, so that a
// reload changes nothing about it, and it ends with the process.
//
// A call asks it with one atomic load when nothing is drained.
type Drains struct {
	now atomic.Pointer[drainTable] // nil: nothing is drained
	mu  sync.Mutex                 // held by who changes it
}

// drainTable never changes once it is published.
type drainTable struct {
	sandboxes map[string]time.Time
	clusters  map[string]ClusterDrain
}

// DrainScope is how far a cluster is drained.
type DrainScope string

const (
	// DrainCreates: no new sandboxes are made in it. All else goes on.
	DrainCreates DrainScope = "creates"
	// DrainAll: DrainCreates, its streams are ended, and new calls to its sandboxes are
	// refused. The control plane goes on, so that they can be described and ended.
	DrainAll DrainScope = "all"
)

// ClusterDrain is a cluster that is drained.
type ClusterDrain struct {
	Scope DrainScope `json:"scope"`
	Since time.Time  `json:"since"`
}

// DrainList is everything that is drained.
type DrainList struct {
	Sandboxes map[string]time.Time    `json:"sandboxes"` // by id, since when
	Clusters  map[string]ClusterDrain `json:"clusters"`  // by name
}

// List is everything that is drained at the moment.
func (d *Drains) List() DrainList {
	l := DrainList{Sandboxes: map[string]time.Time{}, Clusters: map[string]ClusterDrain{}}
	if t := d.now.Load(); t != nil {
		maps.Copy(l.Sandboxes, t.sandboxes)
		maps.Copy(l.Clusters, t.clusters)
	}
	return l
}

// change publishes another table.
func (d *Drains) change(do func(*drainTable)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.List()
	t := &drainTable{l.Sandboxes, l.Clusters}
	if do(t); len(t.sandboxes)+len(t.clusters) == 0 {
		t = nil
	}
	d.now.Store(t)
}

// MaxDrainedSandboxes bounds the memory.
const MaxDrainedSandboxes = 10_000

// Sandbox takes a sandbox out of service: new calls to it are refused as
// cause.Drain, and nothing of it is ended here. It reports false when
// MaxDrainedSandboxes are drained already.
func (d *Drains) Sandbox(id string) (ok bool) {
	d.change(func(t *drainTable) {
		_, known := t.sandboxes[id]
		if ok = known || len(t.sandboxes) < MaxDrainedSandboxes; ok && !known {
			t.sandboxes[id] = time.Now().UTC()
		}
	})
	return ok
}

// Cluster drains a cluster.
func (d *Drains) Cluster(name string, scope DrainScope) {
	d.change(func(t *drainTable) { t.clusters[name] = ClusterDrain{scope, time.Now().UTC()} })
}

// RestoreSandbox takes a sandbox into service again. It reports whether it was drained.
func (d *Drains) RestoreSandbox(id string) (was bool) {
	d.change(func(t *drainTable) {
		_, was = t.sandboxes[id]
		delete(t.sandboxes, id)
	})
	return was
}

// RestoreCluster takes a cluster into service again. It reports whether it was drained.
func (d *Drains) RestoreCluster(name string) (was bool) {
	d.change(func(t *drainTable) {
		_, was = t.clusters[name]
		delete(t.clusters, name)
	})
	return was
}

// closes reports a sandbox to which no new call may be made.
func (d *Drains) closes(route *routing.Route) bool {
	if d == nil {
		return false
	}
	t := d.now.Load()
	if t == nil {
		return false
	}
	_, drained := t.sandboxes[route.SandboxID]
	return drained || t.clusters[route.Cluster].Scope == DrainAll
}

// open are the clusters in which sandboxes may be made, all of them in most cases.
func (d *Drains) open(clusters []*routing.Cluster) []*routing.Cluster {
	if d == nil {
		return clusters
	}
	t := d.now.Load()
	if t == nil || len(t.clusters) == 0 {
		return clusters
	}
	return slices.DeleteFunc(slices.Clone(clusters), func(c *routing.Cluster) bool { return t.clusters[c.Name].Scope != "" })
}

// clusterDrained is what a create is told when no cluster takes it. Nothing was done, and
// 503 says so.
var clusterDrained = cause.Failure{Cause: cause.Drain,
	Message: "New sandboxes are not made here at the moment, by decision of the operator; nothing was done, try again later"}

// sandboxDrained is what a call to a sandbox is told that is drained.
func sandboxDrained(sandboxID string) cause.Failure {
	return cause.Failure{Cause: cause.Drain, SandboxID: sandboxID, Message: "The sandbox " + sandboxID +
		" is out of service for a while, by decision of the operator; it and its processes are still running, nothing was done, try again later"}
}
