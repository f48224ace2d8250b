package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
)

// ROCK evicts the records of all sandboxes that it stops.
func TestASandboxWithoutARecordIsWhatTheAdminRoleSaysItIs(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "alive:here", record("here", "1"))
	asked := 0
	answers := map[string]routing.State{
		"paused": routing.StatePaused, "expired": routing.StateExpired,
		"running": routing.StateRunning, "starting": routing.StateStarting, "unknown": routing.StateUnknown,
	}
	cfg := at(s)
	cfg.Timeout = 500 * time.Millisecond
	cfg.Evicted = func(ctx context.Context, id string) (*routing.Route, error) {
		asked++
		if id == "silent" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if state, ok := answers[id]; ok {
			return &routing.Route{SandboxID: id, State: state}, nil
		}
		if id == "nobody" {
			return nil, routing.ErrGone
		}
		return nil, errors.New("no")
	}
	r := open(t, cfg)
	want(t, r, "here", nil)
	if asked != 0 {
		t.Error("somebody was asked about a sandbox that has a record")
	}
	for _, id := range []string{"paused", "expired"} {
		if route := want(t, r, id, nil); route.State != answers[id] {
			t.Errorf("%s: %+v", id, route)
		}
	}
	want(t, r, "nobody", routing.ErrGone)
	// Redis has lost the records of sandboxes that run: they are not gone.
	for _, id := range []string{"running", "starting", "unknown"} {
		want(t, r, id, routing.ErrUnavailable)
	}
	// It does not run, and that is all that is known.
	for _, id := range []string{"silent", "failing"} {
		if route := want(t, r, id, nil); route.State != routing.StateStopped || route.Problem == "" {
			t.Errorf("%s: %+v", id, route)
		}
	}
	asked = 0
	s.Stop()
	want(t, r, "paused", routing.ErrUnavailable)
	if asked != 0 {
		t.Error("an outage was taken for a missing record")
	}
}
