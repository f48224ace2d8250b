package rock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// errInput is ROCK's code for what the caller did wrong (rock/_codes.py).
const errInput = 4000

// succeeded is the envelope of ROCK's own routes.
func succeeded(w http.ResponseWriter, result any) {
	writeJSON(w, http.StatusOK, map[string]any{"status": "Success", "message": "", "error": nil, "result": result})
}

func failed(w http.ResponseWriter, message, cause string) {
	a := Failed(message, cause)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

// refused is failed with the code of a typed error.
func refused(w http.ResponseWriter, message, cause string) {
	writeJSON(w, http.StatusOK, map[string]any{"status": "Failed", "message": message, "error": cause,
		"result": map[string]any{"code": errInput, "exit_code": nil, "failure_reason": cause}})
}

// status is a sandbox as ROCK's own API shows it: in get_status and in its list.
func (s *Sandbox) status() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	item := s.document()
	item["status"] = map[string]Phase{}
	if s.phases != nil {
		item["status"] = s.phases
	}
	item["is_alive"] = s.state == Running
	item["auto_stop_time"], item["stop_time"] = nil, nil
	if s.state == Running || s.state == Pending {
		item["auto_stop_time"] = stamp(time.Unix(s.expire, 0))
	} else {
		item["stop_time"] = stamp(s.stopped)
	}
	delete(item, "phases")
	delete(item, "env")
	return item
}

// getStatus is what makes a started sandbox run: ROCK looks at the container when it is asked. It refreshes the timeout of sandboxes that
// run or start. The others are shown with include_all_states only.
func (c *Cluster) getStatus(w http.ResponseWriter, r *http.Request, _ string) {
	query := r.URL.Query()
	id, all := query.Get("sandbox_id"), query.Get("include_all_states") == "true"
	s := c.Sandbox(id)
	if s != nil {
		s.probe()
	}
	live := s != nil && (s.State() == Running || s.State() == Pending)
	if s == nil || !live && !all {
		refused(w, "get status failed", "Sandbox "+id+" not found")
		return
	}
	if live {
		select {
		case s.asked <- struct{}{}:
		default:
		}
		s.touch()
	}
	succeeded(w, s.status())
}

// probe fires the alive event of a restarted sandbox whose container has come up.
func (s *Sandbox) probe() {
	s.mu.Lock()
	begun := s.up
	s.mu.Unlock()
	if !begun.IsZero() {
		_ = s.alive(begun) // it fails when the sandbox is not pending any more
	}
}

// Reconcile is one look of the admin role at every sandbox that has been started again.
func (c *Cluster) Reconcile() {
	for _, s := range c.all() {
		s.probe()
	}
}

func (c *Cluster) nativeStop(w http.ResponseWriter, r *http.Request, _ string) {
	id, err := sandboxIDOf(r)
	if err != nil {
		failed(w, "Request parameter validation failed", err.Error())
		return
	}
	// ROCK has nothing against stopping what it does not know, or has stopped (rock/sandbox/sandbox_manager.py).
	s := c.Sandbox(id)
	if s == nil || s.State() == Stopped {
		succeeded(w, id+" stopped")
		return
	}
	if err := s.Stop(Stopped); err != nil {
		failed(w, "stop sandbox failed", err.Error())
		return
	}
	succeeded(w, id+" stopped")
}

func (c *Cluster) nativeRestart(w http.ResponseWriter, r *http.Request, _ string) {
	id, err := sandboxIDOf(r)
	if err != nil {
		failed(w, "Request parameter validation failed", err.Error())
		return
	}
	c.restartSandbox(w, r, id)
}

// sandboxIDOf reads {"sandbox_id":…}.
func sandboxIDOf(r *http.Request) (string, error) {
	var req struct {
		SandboxID string `json:"sandbox_id"`
	}
	err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&req)
	return strings.TrimSpace(req.SandboxID), err
}

// restartSandbox answers when the container was started, which is before the sandbox runs.
func (c *Cluster) restartSandbox(w http.ResponseWriter, _ *http.Request, id string) {
	s := c.Sandbox(id)
	if s == nil {
		refused(w, "restart sandbox failed", "Sandbox "+id+" not found")
		return
	}
	if err := s.Restart(); err != nil {
		refused(w, "restart sandbox failed", err.Error())
		return
	}
	s.mu.Lock()
	result := map[string]any{"sandbox_id": s.ID, "host_name": "ray-worker-1", "host_ip": s.hostIP}
	s.mu.Unlock()
	succeeded(w, result)
}

// Restart begins another life of a stopped or archived sandbox, as ROCK does: the container first, with the files that there are, then the
// record, pending and with the address and the ports of the life before. It runs after Options.StartDelay, once somebody asks for its
// status or the admin role looks.
func (s *Sandbox) Restart() error {
	s.life.Lock()
	defer s.life.Unlock()
	from := s.State()
	if from != Stopped && from != Archived {
		return badInput(fmt.Sprintf("Sandbox %s cannot be restarted: current state is '%s'", s.ID, from))
	}
	c := s.cluster
	begun := c.opt.Now()
	s.mu.Lock()
	life := newContainer(s)
	s.present, s.phases, s.up, s.stopped = life, nil, time.Time{}, time.Time{}
	s.expire = begun.Unix() + int64(s.minutes)*60
	s.mu.Unlock()
	s.move(Pending, "restart")
	s.publish()
	s.publishTimeout()
	if !c.task(func() { s.comeUp(life, begun) }) {
		return errors.New("server is shutting down")
	}
	return nil
}

// comeUp is the way of a restarted container to where its alive event may fire, or to a failed start.
func (s *Sandbox) comeUp(life *container, begun time.Time) {
	c := s.cluster
	if !c.sleep(c.opt.StartDelay) {
		return
	}
	if c.opt.FailStart != nil {
		if err := c.opt.FailStart(s); err != nil {
			_ = s.startFailed(err) // nobody waits for it
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present == life {
		s.up = begun
	}
}
