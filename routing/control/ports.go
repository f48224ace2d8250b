package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/caddy-e2b/gateway/routing"
)

// E2B's description of a sandbox tells no ports, and of one that is starting that it
// runs. ROCK's own get_status has its whole record. To ask for it is a use of the sandbox,
// whose timeout begins anew: good enough for a call to a port, and for nothing else.

// inUse is the path of that question (rock/admin/entrypoints/sandbox_api.py).
func inUse(sandboxID string) string {
	return "/apis/envs/sandbox/v1/get_status?sandbox_id=" + sandboxID
}

// liveRecord is what is read of the answer.
type liveRecord struct {
	SandboxID string            `json:"sandbox_id"`
	State     string            `json:"state"`
	HostIP    string            `json:"host_ip"`
	Ports     json.RawMessage   `json:"port_mapping"`
	Phases    json.RawMessage   `json:"status"`
	Metadata  map[string]string `json:"metadata"`
}

// touch asks for the record of a sandbox that runs or starts. ErrGone: ROCK has looked,
// and there is none.
func (r *Registry) touch(ctx context.Context, sandboxID string) (json.RawMessage, error) {
	status, body, err := r.ask(ctx, inUse(sandboxID))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
	}
	if status != http.StatusOK || json.Unmarshal(body, &answer) != nil {
		return nil, fmt.Errorf("%w: the admin role answered %d", routing.ErrUnavailable, status)
	}
	if answer.Status == "Success" {
		return answer.Result, nil
	}
	var failure struct {
		Code int `json:"code"`
	}
	if answer.Status == "Failed" && json.Unmarshal(answer.Result, &failure) == nil && failure.Code/1000 == 4 {
		return nil, routing.ErrGone
	}
	return nil, fmt.Errorf("%w: ROCK failed to tell the status", routing.ErrUnavailable)
}

// Extend implements [routing.Extender] by asking ROCK for the sandbox's status, which begins
// its timeout anew.
func (r *Registry) Extend(ctx context.Context, route *routing.Route) error {
	_, err := r.touch(ctx, route.SandboxID)
	return err
}

// Map implements [routing.Mapper].
func (r *Registry) Map(ctx context.Context, route *routing.Route) (*routing.Route, error) {
	found, err := r.touch(ctx, route.SandboxID)
	if err != nil {
		return nil, err
	}
	return mapped(route, found)
}

// mapped is a route with what a record adds to it. ErrGone: the record is that of a later
// sandbox with the same id, for which nobody has been let in.
func mapped(route *routing.Route, found json.RawMessage) (*routing.Route, error) {
	var record liveRecord
	if err := json.Unmarshal(found, &record); err != nil || record.SandboxID != route.SandboxID {
		return nil, fmt.Errorf("%w: the admin role's answer is not about the sandbox", routing.ErrUnavailable)
	}
	_, private := record.Metadata[routing.MetadataTraffic]
	if routing.ParseOwner(record.Metadata[routing.MetadataOwner]) != route.Owner || private != route.Private {
		return nil, routing.ErrGone
	}
	with := *route
	with.PortsUnknown = false
	with.Ports, with.Problem = routing.ParsePortMapping(record.Ports)
	if host, err := netip.ParseAddr(record.HostIP); err == nil {
		with.Host = host
	}
	switch record.State {
	case "running":
	case "pending":
		with.State = routing.StateStarting
		if why, failed := routing.FailedPhase(record.Phases); failed {
			with.State, with.Problem = routing.StateFailed, why
		}
	default:
		return nil, fmt.Errorf("%w: ROCK tells no state that it could be in", routing.ErrUnavailable)
	}
	return &with, nil
}
