package handlers

import (
	"sync"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// Deaths carries between gateways what calls of the control plane do to
// sandboxes. After a reload the streams that run belong to the gateway of the
// config that they began with, and the call that ends their sandbox to another. So
// do two creates that want one id, and two calls that start one sandbox again.
// Gateways that may serve the same sandboxes share one.
type Deaths struct {
	mu       sync.Mutex
	gateways map[*Gateway]struct{}
	underWay map[string]int // calls that may end a sandbox, by its id

	births   births
	restarts flights // by sandbox
	ends     ends
	// settling are the creates under way for which a cluster is being found, by
	// chosen id.
	settling births
}

// NewDeaths makes a Deaths.
func NewDeaths() *Deaths {
	return &Deaths{gateways: map[*Gateway]struct{}{}, underWay: map[string]int{}}
}

// join lets a gateway hear of deaths, until leave is called.
func (d *Deaths) join(g *Gateway) (leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gateways[g] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.gateways, g)
	}
}

// begin notes a call that may end a sandbox, until over is called.
func (d *Deaths) begin(sandboxID string) (over func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.underWay[sandboxID]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.underWay[sandboxID]--; d.underWay[sandboxID] == 0 {
			delete(d.underWay, sandboxID)
		}
	}
}

// pending reports a call under way that may end a sandbox.
func (d *Deaths) pending(sandboxID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.underWay[sandboxID] > 0
}

// tell tells every gateway what such a call has made of a sandbox.
func (d *Deaths) tell(sandboxID string, why cause.Cause) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g := range d.gateways {
		g.looks.settle(sandboxID, why)
		g.streams.end(sandboxID, why)
		g.ready.settle(sandboxID, why)
	}
}
