package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// SandboxIPKey is the metadata key under which ROCK tells a sandbox's address.
const SandboxIPKey = "e2b.agents.kruise.io/sandbox-ip"

// maxBody is how much of an answer is read, in bytes. A sandbox's metadata is
// small; what is longer is malformed.
const maxBody = 1 << 20

// Doer sends a request to one of the admin role's addresses. The request's URL
// has a path only; Do fills in the rest. *http.Client does not do: it wants
// whole URLs.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Config says whom to ask.
type Config struct {
	// Client sends the requests. Default: see Addresses.
	Client Doer
	// Addresses are base URLs of the admin role, such as
	// "http://rock-admin:8080", for a Client of our own: it takes the first
	// that can be connected to. Required without a Client.
	Addresses []string
	// Timeout bounds a lookup. An earlier deadline of the caller counts.
	// Default: 1s.
	Timeout time.Duration
	// Header adds to the header of each request, for an admin role that wants
	// to know who asks. Default: nothing.
	Header func(http.Header)
}

// Registry asks the admin role. It is a routing.Registry.
type Registry struct {
	client  Doer
	timeout time.Duration
	header  func(http.Header)
	close   func()
}

var _ routing.Registry = (*Registry)(nil)

// New returns a registry for cfg. It opens no connection.
func New(cfg Config) (*Registry, error) {
	r := &Registry{client: cfg.Client, timeout: cfg.Timeout, header: cfg.Header, close: func() {}}
	switch {
	case cfg.Client != nil && len(cfg.Addresses) > 0:
		return nil, errors.New("control: a client and addresses exclude each other")
	case cfg.Client == nil:
		d, err := newDirect(cfg.Addresses)
		if err != nil {
			return nil, err
		}
		r.client, r.close = d, d.transport.CloseIdleConnections
	}
	if r.timeout < 0 {
		return nil, fmt.Errorf("control: timeout %v is negative", r.timeout)
	}
	if r.timeout == 0 {
		r.timeout = time.Second
	}
	return r, nil
}

// Close closes the idle connections of a client of our own.
func (r *Registry) Close() { r.close() }

// Lookup asks for one sandbox.
func (r *Registry) Lookup(ctx context.Context, sandboxID string) (*routing.Route, error) {
	if !routing.ValidSandboxID(sandboxID) {
		return nil, routing.ErrInvalidSandboxID
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	request := (&http.Request{
		Method:     http.MethodGet,
		URL:        &url.URL{Path: "/sandboxes/" + sandboxID},
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Accept": {"application/json"}},
	}).WithContext(ctx)
	if r.header != nil {
		r.header(request.Header)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", routing.ErrUnavailable, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", routing.ErrUnavailable, err)
	}
	return parse(sandboxID, response.StatusCode, body)
}

// parse reads an answer of the admin role.
func parse(sandboxID string, status int, body []byte) (*routing.Route, error) {
	switch {
	case len(body) > maxBody:
		return nil, fmt.Errorf("%w: the admin role's answer is longer than %d bytes", routing.ErrMalformed, maxBody)
	case status == http.StatusOK:
		return parseSandbox(sandboxID, body)
	case status == http.StatusNotFound && saysNotFound(body):
		return nil, routing.ErrGone
	case status == http.StatusNotFound:
		return nil, fmt.Errorf("%w: the answer 404 is not an admin role's", routing.ErrUnavailable)
	case status == http.StatusInternalServerError:
		return nil, fmt.Errorf("%w: the admin role answered 500", routing.ErrMalformed)
	default:
		return nil, fmt.Errorf("%w: the admin role answered %d", routing.ErrUnavailable, status)
	}
}

// saysNotFound reports E2B's error body with the code 404.
func saysNotFound(body []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return false
	}
	var message string
	return string(fields["code"]) == "404" && json.Unmarshal(fields["message"], &message) == nil
}

// sandbox is the part of E2B's SandboxDetail that routing needs.
type sandbox struct {
	SandboxID string         `json:"sandboxID"`
	State     string         `json:"state"`
	StartedAt string         `json:"startedAt"`
	Metadata  map[string]any `json:"metadata"`
}

func parseSandbox(sandboxID string, body []byte) (*routing.Route, error) {
	var s sandbox
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("%w: the admin role's answer is not a sandbox", routing.ErrMalformed)
	}
	if s.SandboxID != sandboxID {
		return nil, fmt.Errorf("%w: the admin role's answer is not about this sandbox", routing.ErrMalformed)
	}
	r := &routing.Route{SandboxID: sandboxID}
	switch s.State {
	case "running":
		r.State = routing.StateRunning
	case "paused":
		r.State = routing.StatePaused
	default:
		return nil, fmt.Errorf("%w: its state %.20q is not known", routing.ErrMalformed, s.State)
	}
	host, _ := s.Metadata[SandboxIPKey].(string)
	if host != "" {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.Zone() != "" {
			r.Problem = "the sandbox's address is not an IP address"
		} else {
			r.Host = addr.Unmap()
		}
	}
	r.Lifecycle = routing.LifecycleOf(s.StartedAt, host)
	return r, nil
}
