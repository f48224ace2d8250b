package routing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// FailedPhase finds the phase of a start that has failed. ROCK starts a sandbox in
// phases, {"image_pull": {"status": "success", "message": "ok"}, …}, whose status is
// waiting, running, success, failed or timeout (rock/deployments/status.py). A
// sandbox that is pending with a failed phase will never run.
//
// why names the phase and has ROCK's message. It is for logs: it may name what is
// inside the deployment. What cannot be read has not failed.
func FailedPhase(phases json.RawMessage) (why string, failed bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(phases, &all) != nil {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var phase struct {
			Status  string          `json:"status"`
			Message json.RawMessage `json:"message"`
		}
		if json.Unmarshal(all[name], &phase) != nil || phase.Status != "failed" && phase.Status != "timeout" {
			continue
		}
		var message string
		_ = json.Unmarshal(phase.Message, &message) // it says nothing, else
		return fmt.Sprintf("%.50s: %s: %.300s", name, phase.Status, message), true
	}
	return "", false
}
