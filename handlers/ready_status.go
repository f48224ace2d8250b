package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// statusTimeout bounds a question for a sandbox's status. ROCK looks into the sandbox
// for its answer.
const statusTimeout = 10 * time.Second

// status is ROCK's answer to get_status, as far as it tells of a start.
type status struct {
	pending bool
	failed  bool
	problem string // for logs
}

// statusOf asks for the status of a sandbox. It is for the admin role: that of the proxy role asks
// the sandbox's machine, which on Kubernetes does not answer. What ROCK says of a sandbox
// that it does not know is no error.
//
// The question has effects: ROCK notices by it that the sandbox has started, and begins
// its timeout anew.
func (c RoleClient) statusOf(ctx context.Context, sandboxID string) (s status, _ error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var answer struct {
		State  string          `json:"state"`
		Phases json.RawMessage `json:"status"`
	}
	err := c.call(ctx, http.MethodGet, "/get_status?sandbox_id="+url.QueryEscape(sandboxID), nil, &answer)
	var failed *rockError
	switch {
	case errors.As(err, &failed) && failed.refused():
		return status{}, nil
	case err != nil:
		return status{}, err
	}
	if s.pending = answer.State == "pending"; s.pending {
		s.problem, s.failed = routing.FailedPhase(answer.Phases)
	}
	return s, nil
}
