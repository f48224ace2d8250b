package rock

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// native is the prefix of ROCK's own routes.
const native = "/apis/envs/sandbox/v1"

// sandboxIP is the metadata key that ROCK adds to every detail.
const sandboxIP = "e2b.agents.kruise.io/sandbox-ip"

// containerName is the metadata key by which a caller chooses the sandbox's id.
const containerName = "ap-sandbox-id"

// maxBody bounds the control plane's request bodies.
const maxBody = 1 << 20

// Admin is the admin role: the E2B control plane without its list, and what the gateway needs of ROCK's own routes.
func (c *Cluster) Admin() http.Handler {
	rs := router{
		{"GET", "/", hello},
		{"POST", "/sandboxes", c.createSandbox},
		{"GET", "/sandboxes/{id}", c.getSandbox},
		{"DELETE", "/sandboxes/{id}", c.deleteSandbox},
		{"POST", "/sandboxes/{id}/timeout", c.setTimeout},
		{"GET", native + "/get_status", c.getStatus},
		{"POST", native + "/stop", c.nativeStop},
		{"POST", native + "/restart", c.nativeRestart},
		{"POST", native + "/sandboxes/{id}/restart", c.restartSandbox},
	}
	if c.opt.Pause {
		rs = append(rs, route{"POST", "/sandboxes/{id}/pause", c.pauseSandbox})
	}
	return rs
}

func hello(w http.ResponseWriter, _ *http.Request, _ string) {
	writeJSON(w, http.StatusOK, map[string]string{"message": "hello, ROCK!"})
}

func (c *Cluster) createSandbox(w http.ResponseWriter, r *http.Request, _ string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		e2bError(w, http.StatusBadRequest, "invalid request body")
		return
	}
	req, err := parseCreate(body)
	if err != nil {
		e2bError(w, http.StatusBadRequest, err.Error())
		return
	}
	s, wait, err := c.admit(req, r.Header)
	if err != nil {
		e2bError(w, http.StatusBadRequest, err.Error())
		return
	}
	started := make(chan error, 1) // the start goes on when this client leaves
	if !c.task(func() { started <- s.start() }) {
		e2bError(w, http.StatusInternalServerError, "server is shutting down")
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case err = <-started:
	case <-t.C:
		err = fmt.Errorf("not alive after %s", wait)
	case <-r.Context().Done():
		return
	}
	if err == nil && c.opt.Backend == OpenSandbox {
		err = errors.New("sandbox has no valid ip")
	}
	if err != nil {
		e2bError(w, http.StatusInternalServerError, fmt.Sprintf("sandbox %s failed to start: %v", s.ID, err))
		return
	}
	answer := map[string]any{"sandboxID": s.ID, "templateID": s.Template, "clientID": "rock", "envdVersion": Version}
	if key := r.Header.Get("X-API-Key"); key != "" {
		answer["envdAccessToken"] = key
	}
	writeJSON(w, http.StatusCreated, answer)
}

// admit makes the sandbox of a valid request and tells how long create waits for it.
func (c *Cluster) admit(req createRequest, h http.Header) (*Sandbox, time.Duration, error) {
	s := &Sandbox{
		ID: req.metadata[containerName], Template: req.templateID, Image: req.templateID, Metadata: req.metadata, Env: req.env,
		CPUs: 2, MemoryMB: 8192, DiskMB: 50 * 1024, cluster: c, state: Pending,
		asked: make(chan struct{}, 1), published: map[int]string{}, servers: map[int]string{},
	}
	s.present = newContainer(s)
	wait := 85 * time.Second
	if t, ok := c.opt.Templates[req.templateID]; ok {
		s.Image, s.CPUs, s.MemoryMB, s.DiskMB = t.Image, t.CPUs, t.MemoryMB, t.DiskMB
	} else if err := coldStart(req.metadata, s, &wait); err != nil {
		return nil, 0, err
	}
	if s.ID == "" {
		s.ID = newID()
	}
	auth := orDefault(h.Get("X-Key"))
	if key := h.Get("X-API-Key"); key != "" {
		auth = "Bearer " + key
	}
	sealed, err := seal(c.opt.EncryptKey, auth)
	if err != nil {
		return nil, 0, err
	}
	s.owner = owner{
		user: orDefault(h.Get("X-User-Id")), experiment: orDefault(h.Get("X-Experiment-Id")),
		namespace: orDefault(h.Get("X-Namespace")), cluster: orDefault(h.Get("X-Cluster")), sealed: sealed,
	}
	now := c.opt.Now()
	s.created, s.minutes = now, minutesOf(req.timeout)
	s.expire = now.Unix() + int64(s.minutes)*60
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, 0, errors.New("server is shutting down")
	}
	if old := c.sandboxes[s.ID]; old != nil && old.State() != Deleted {
		return nil, 0, fmt.Errorf("sandbox %s already exists", s.ID)
	}
	c.serial++
	s.dir = c.sandboxDir(c.serial)
	c.sandboxes[s.ID] = s
	return s, wait, nil
}

func orDefault(v string) string {
	if v == "" {
		return "default"
	}
	return v
}

// newID is uuid4().hex.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return hex.EncodeToString(b[:])
}

// all returns every sandbox that exists, in no order.
func (c *Cluster) all() []*Sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*Sandbox, 0, len(c.sandboxes))
	for _, s := range c.sandboxes {
		list = append(list, s)
	}
	return list
}

func notFound(w http.ResponseWriter, id string) {
	e2bError(w, http.StatusNotFound, "sandbox "+id+" not found")
}

func (c *Cluster) getSandbox(w http.ResponseWriter, _ *http.Request, id string) {
	s := c.Sandbox(id)
	if s == nil {
		notFound(w, id)
		return
	}
	d, err := s.detail()
	switch {
	case errors.Is(err, errNoE2BState):
		notFound(w, id)
	case err != nil:
		e2bError(w, http.StatusInternalServerError, err.Error())
	default:
		writeJSON(w, http.StatusOK, d)
	}
}

// info is a SandboxDetail, and an item of the list.
type info struct {
	SandboxID   string            `json:"sandboxID"`
	Metadata    map[string]string `json:"metadata"`
	State       string            `json:"state"`
	ClientID    string            `json:"clientID"`
	TemplateID  string            `json:"templateID"`
	EnvdVersion string            `json:"envdVersion"`
	CPUCount    int               `json:"cpuCount"`
	MemoryMB    int               `json:"memoryMB"`
	DiskSizeMB  int               `json:"diskSizeMB"`
	StartedAt   string            `json:"startedAt"`
	EndAt       string            `json:"endAt"`
}

var errNoE2BState = errors.New("state has no E2B counterpart")

// detail maps the record to E2B's view; an incomplete record is an error, never a partial answer.
func (s *Sandbox) detail() (info, error) {
	s.Expires() // the record's word counts
	s.mu.Lock()
	defer s.mu.Unlock()
	d := info{
		SandboxID: s.ID, Metadata: make(map[string]string), ClientID: "rock", TemplateID: s.Image, EnvdVersion: Version,
		CPUCount: s.CPUs, MemoryMB: s.MemoryMB, DiskSizeMB: s.DiskMB, StartedAt: stamp(s.started), EndAt: stamp(time.Unix(s.expire, 0)),
	}
	switch s.state {
	case Pending, Running:
		d.State = "running"
	case Stopped, Archived:
		d.State = "paused"
	default:
		return info{}, errNoE2BState
	}
	if s.hostIP == "" || s.cluster.opt.Backend == OpenSandbox || s.spoiled&SpoilE2B != 0 {
		return info{}, fmt.Errorf("sandbox %s has no valid ip", s.ID)
	}
	if s.started.IsZero() {
		d.StartedAt = stamp(s.created)
	}
	for k, v := range s.Metadata {
		d.Metadata[k] = v
	}
	d.Metadata[sandboxIP] = s.hostIP
	return d, nil
}

func (c *Cluster) deleteSandbox(w http.ResponseWriter, _ *http.Request, id string) {
	s := c.Sandbox(id)
	if s == nil {
		notFound(w, id)
		return
	}
	switch err := s.Stop(Deleted); {
	case errors.Is(err, ErrNotRunning):
		notFound(w, id)
	case err != nil:
		e2bError(w, http.StatusInternalServerError, err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (c *Cluster) setTimeout(w http.ResponseWriter, r *http.Request, id string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	seconds, err := parseTimeout(body)
	if err != nil {
		e2bError(w, http.StatusBadRequest, err.Error())
		return
	}
	s := c.Sandbox(id)
	if s == nil {
		notFound(w, id)
		return
	}
	s.life.Lock()
	defer s.life.Unlock()
	if s.State() != Running {
		notFound(w, id)
		return
	}
	s.setMinutes(minutesOf(seconds))
	w.WriteHeader(http.StatusNoContent)
}

// pauseSandbox is not ROCK's; see Options.Pause.
func (c *Cluster) pauseSandbox(w http.ResponseWriter, _ *http.Request, id string) {
	s := c.Sandbox(id)
	if s == nil || s.State() != Running || s.Stop(Stopped) != nil {
		notFound(w, id)
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"forced": false})
}
