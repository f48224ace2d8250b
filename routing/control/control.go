// Package control is the registry of a cluster without a Redis that can be
// reached: it asks the cluster's admin role about each sandbox. A local ROCK
// keeps its Redis inside its own process, so this is the only registry for it.
//
// It is a weaker witness than the Redis registry. ROCK answers 404 for a sandbox
// that is being archived, older ROCK also for one that is starting, and a ROCK
// that has lost its own Redis may answer 404 for everything: all of that reads
// as gone here. Newer ROCK shows a starting sandbox as running. Where that matters,
// and for the ports of a sandbox, a second question is put: see [Registry.Map].
//
// It knows E2B's GET /sandboxes/{id}, ROCK's own get_status, and how ROCK answers
// them. Which address of the role is asked is decided by whoever gives it its
// [Getter].
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// Getter sends GET path to the admin role. The caller closes the body.
type Getter func(ctx context.Context, path string) (*http.Response, error)

// Registry is the registry. It holds no state.
type Registry struct{ get Getter }

// New makes a Registry.
func New(get Getter) *Registry { return &Registry{get} }

// maxAnswer bounds what is read of an answer, in bytes. A sandbox's metadata
// is the only part without a limit of its own.
const maxAnswer = 1 << 20

// Lookup implements [routing.Registry].
//
// Gone is a 404 in E2B's shape, {"code":404,"message":…}: the admin role looked
// and found nothing. Every other failure is a don't know. The 404 of a web
// framework, {"detail":"Not Found"}, says that the role does not know the call,
// as ROCK without E2B's API does not. See [Registry.Evicted].
func (r *Registry) Lookup(ctx context.Context, sandboxID string) (*routing.Route, error) {
	status, body, err := r.ask(ctx, "/sandboxes/"+sandboxID)
	if err != nil {
		return nil, err
	}
	route, err := parse(sandboxID, status, body, time.Now())
	switch {
	case err == nil && route.State == routing.StateExpired, errors.Is(err, errNoDescription):
		return r.stopped(ctx, sandboxID, route, body, err)
	default:
		return route, err
	}
}

func (r *Registry) ask(ctx context.Context, path string) (status int, body []byte, err error) {
	resp, err := r.get(ctx, path)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: asking the admin role: %w", routing.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("%w: reading the admin role's answer: %w", routing.ErrUnavailable, err)
	}
	return resp.StatusCode, body, nil
}

// errNoDescription is that the admin role cannot describe the sandbox, as ROCK cannot
// describe a stopped one that nothing will ever delete.
var errNoDescription = errors.New("the admin role cannot describe the sandbox")

// errNoCall is that the admin role has nothing of E2B's API, as published ROCK has not.
var errNoCall = errors.New("the admin role does not know the call")

func parse(sandboxID string, status int, body []byte, now time.Time) (*routing.Route, error) {
	var answer struct {
		SandboxID string            `json:"sandboxID"`
		Code      int               `json:"code"`
		Detail    string            `json:"detail"`
		State     string            `json:"state"`
		StartedAt string            `json:"startedAt"`
		EndAt     string            `json:"endAt"`
		Metadata  map[string]string `json:"metadata"`
	}
	err := json.Unmarshal(body, &answer)
	switch {
	case status == http.StatusNotFound && err == nil && answer.Code == http.StatusNotFound:
		return nil, routing.ErrGone
	case status == http.StatusNotFound && err == nil && answer.Detail == "Not Found":
		return nil, fmt.Errorf("%w: %w", routing.ErrUnavailable, errNoCall)
	case status == http.StatusInternalServerError && err == nil && answer.Code == status:
		return nil, fmt.Errorf("%w: %w", routing.ErrUnavailable, errNoDescription)
	case status != http.StatusOK:
		return nil, fmt.Errorf("%w: the admin role answered %d", routing.ErrUnavailable, status)
	case err != nil || answer.SandboxID != sandboxID:
		// No answer of an admin role, or one about something else.
		return nil, fmt.Errorf("%w: the admin role's answer is not about the sandbox", routing.ErrUnavailable)
	}
	route := &routing.Route{
		SandboxID: sandboxID,
		Owner:     routing.ParseOwner(answer.Metadata[routing.MetadataOwner]),
		Lifecycle: routing.LifecycleOf(sandboxID, answer.StartedAt, answer.Metadata[routing.MetadataAddress]),
	}
	// Whatever the note says: it is there for one reason only.
	_, route.Private = answer.Metadata[routing.MetadataTraffic]
	switch answer.State {
	case "running":
		route.State, route.PortsUnknown = routing.StateRunning, true
	case "paused":
		// ROCK stops a sandbox whose time has run out, and shows it as paused. Its
		// creator may want just that.
		route.State = routing.StatePaused
		end, err := time.Parse(time.RFC3339, answer.EndAt)
		if err == nil && end.Before(now) && answer.Metadata[routing.MetadataOnTimeout] != routing.OnTimeoutPause {
			route.State = routing.StateExpired
		}
	default:
		route.Problem = "state is neither running nor paused"
	}
	if host, err := netip.ParseAddr(answer.Metadata[routing.MetadataAddress]); err == nil {
		route.Host = host
	}
	return route, nil
}
