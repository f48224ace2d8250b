package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// A stopped sandbox is one that was paused, or one whose time has run out; E2B's
// description tells neither when it was stopped, nor, in a ROCK that deletes nothing
// by itself, anything at all. ROCK's own get_status does. It is asked about what does
// not run only, because it pushes back the timeout of what does: a ROCK that describes
// nothing, because it has no E2B API, is asked it about what has no record in Redis.

// statusOf is the path of that question (rock/admin/entrypoints/sandbox_api.py).
func statusOf(sandboxID string) string {
	return "/apis/envs/sandbox/v1/get_status?sandbox_id=" + sandboxID + "&include_all_states=true"
}

// record is what is read of the answer, {"status":"Success","result":{…}}.
type record struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Result struct {
		Code      int               `json:"code"`
		SandboxID string            `json:"sandbox_id"`
		State     string            `json:"state"`
		StartTime string            `json:"start_time"`
		StopTime  string            `json:"stop_time"`
		Metadata  map[string]string `json:"metadata"`
	} `json:"result"`
}

// Evicted is Lookup for a sandbox that has no record in Redis, and so does not run: a
// ROCK without E2B's API is asked for its own status of it.
func (r *Registry) Evicted(ctx context.Context, sandboxID string) (*routing.Route, error) {
	route, err := r.Lookup(ctx, sandboxID)
	if errors.Is(err, errNoCall) {
		return r.stopped(ctx, sandboxID, nil, nil, err)
	}
	return route, err
}

// stopped tells what a sandbox is that was described as expired, or with why could not
// be described. It is paused if it was stopped before its time had run out. What
// get_status does not tell stays as it was.
func (r *Registry) stopped(ctx context.Context, sandboxID string, described *routing.Route, description []byte, why error) (*routing.Route, error) {
	status, body, err := r.ask(ctx, statusOf(sandboxID))
	if err != nil {
		return nil, err // nobody knows which of them it is
	}
	var answer record
	if errors.Is(why, errNoCall) && status == http.StatusOK && json.Unmarshal(body, &answer) == nil && answer.gone(sandboxID) {
		return nil, routing.ErrGone
	}
	answer = record{}
	if status != http.StatusOK || json.Unmarshal(body, &answer) != nil || answer.Status != "Success" || answer.Result.SandboxID != sandboxID {
		return described, why
	}
	if described != nil {
		if stoppedBefore(answer.Result.StopTime, description) {
			described.State = routing.StatePaused
		}
		return described, nil
	}
	switch answer.Result.State {
	case "stopped", "archived":
		return &routing.Route{
			SandboxID: sandboxID,
			State:     routing.StatePaused,
			Owner:     routing.ParseOwner(answer.Result.Metadata[routing.MetadataOwner]),
			Lifecycle: routing.LifecycleOf(sandboxID, answer.Result.StartTime),
		}, nil
	default:
		return nil, why
	}
}

// gone reports that ROCK has looked and found a deleted sandbox, or none.
func (r *record) gone(sandboxID string) bool {
	switch r.Status {
	case "Success":
		return r.Result.SandboxID == sandboxID && r.Result.State == "deleted"
	case "Failed":
		return r.Result.Code/1000 == 4 && r.Error == "Sandbox "+sandboxID+" not found"
	default:
		return false
	}
}

// stoppedBefore reports a stop before the end in a description. ROCK looks for sandboxes
// whose time has run out every three minutes, so it stops them after their end.
func stoppedBefore(stopTime string, description []byte) bool {
	var detail struct {
		EndAt string `json:"endAt"`
	}
	if json.Unmarshal(description, &detail) != nil {
		return false
	}
	stop, err := time.Parse(time.RFC3339, stopTime)
	end, late := time.Parse(time.RFC3339, detail.EndAt)
	return err == nil && late == nil && stop.Before(end)
}
