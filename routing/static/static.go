// Package static is a registry that is a table in the configuration: for tests
// and for sandboxes that never come or go. It asks nobody; a sandbox that is
// not in the table is gone.
package static

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/caddy-e2b/gateway/routing"
)

// Sandbox is one line of the table.
type Sandbox struct {
	// State is "starting", "running", "paused" or "deleted".
	// Default: "running".
	State string `json:"state,omitempty"`
	// Host is the sandbox's IP address, needed by the modes that dial the
	// sandbox itself. Default: none.
	Host string `json:"host,omitempty"`
	// Ports maps ports inside the sandbox to ports of Host. Default: none.
	Ports map[uint16]uint16 `json:"ports,omitempty"`
	// Lifecycle names this life of the sandbox. Default: made from Host and
	// Ports.
	Lifecycle string `json:"lifecycle,omitempty"`
	// Owner is the subject of the API keys whose sandbox it is: 1 to 128 of
	// A-Z a-z 0-9 . _ @ + -. Default: nobody's known.
	Owner string `json:"owner,omitempty"`
	// Private wants a token asked for on every port, also where the traffic of
	// sandboxes is public. Default: false.
	Private bool `json:"private,omitempty"`
}

// Registry is the table. It is a routing.Registry and never changes.
type Registry struct {
	routes map[string]*routing.Route
}

var _ routing.Registry = (*Registry)(nil)

// New reads a table of sandboxes by id. The error names the sandbox and what
// is wrong with it.
func New(sandboxes map[string]Sandbox) (*Registry, error) {
	r := &Registry{routes: make(map[string]*routing.Route, len(sandboxes))}
	for _, id := range slices.Sorted(maps.Keys(sandboxes)) {
		if !routing.ValidSandboxID(id) {
			return nil, fmt.Errorf("static: sandbox %q: %w", id, routing.ErrInvalidSandboxID)
		}
		route, err := sandboxes[id].route(id)
		if err != nil {
			return nil, fmt.Errorf("static: sandbox %s: %w", id, err)
		}
		r.routes[id] = route
	}
	return r, nil
}

// Lookup finds a sandbox in the table. Its errors are routing.ErrGone and
// routing.ErrInvalidSandboxID.
func (r *Registry) Lookup(_ context.Context, sandboxID string) (*routing.Route, error) {
	if !routing.ValidSandboxID(sandboxID) {
		return nil, routing.ErrInvalidSandboxID
	}
	route, ok := r.routes[sandboxID]
	if !ok {
		return nil, routing.ErrGone
	}
	// The caller may name its cluster before it publishes the route.
	own := *route
	return &own, nil
}

func (s Sandbox) route(id string) (*routing.Route, error) {
	r := &routing.Route{SandboxID: id, Lifecycle: s.Lifecycle, Owner: routing.Owner{Subject: s.Owner}, Private: s.Private}
	switch s.State {
	case "starting":
		r.State = routing.StateStarting
	case "running", "":
		r.State = routing.StateRunning
	case "paused":
		r.State = routing.StatePaused
	case "deleted":
		r.State = routing.StateDeleted
	default:
		return nil, fmt.Errorf("state %q is none of starting, running, paused, deleted", s.State)
	}
	if s.Host != "" {
		addr, err := netip.ParseAddr(s.Host)
		if err != nil || addr.Zone() != "" {
			return nil, fmt.Errorf("host %q is not an IP address", s.Host)
		}
		r.Host = addr.Unmap()
	}
	parts := []string{id, s.Host}
	for _, inside := range slices.Sorted(maps.Keys(s.Ports)) {
		outside := s.Ports[inside]
		if inside == 0 || outside == 0 {
			return nil, fmt.Errorf("ports %d: %d are not two ports", inside, outside)
		}
		parts = append(parts, strconv.Itoa(int(inside)), strconv.Itoa(int(outside)))
	}
	r.Ports = routing.PortsOf(s.Ports)
	if r.Lifecycle == "" {
		r.Lifecycle = routing.LifecycleOf(parts...)
	}
	return r, nil
}
