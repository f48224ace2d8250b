package rock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// This file is ROCK's own list of sandboxes, GET …/sandboxes, and its call for several at once, POST …/sandboxes/batch: pages,
// filters by exact equality, running and pending sandboxes only, and a page that fails whole for one record that it cannot show.

// maxStatuses is ROCK's proxy_service.batch_get_status_max_count: the longest page, and the most of one batch.
const maxStatuses = 500

// Spoiled says which of ROCK's answers a record breaks.
type Spoiled uint8

// Kinds of spoiled records, which add up.
const (
	// SpoilE2B fails the E2B list and the E2B detail of the sandbox.
	SpoilE2B Spoiled = 1 << iota
	// SpoilNative fails every page of ROCK's own list that it is on.
	SpoilNative
	// SpoilValues passes ROCK's validation with values that mean nothing.
	SpoilValues
)

// Spoil plants a broken record: the sandbox lives on, but ROCK cannot tell of it any more.
func (s *Sandbox) Spoil(how Spoiled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoiled = how
}

var errValidation = errors.New("1 validation error for SandboxListItem")

// listNative pages through the running and pending sandboxes, by id so that pages are steady, which ROCK does not promise.
func (c *Cluster) listNative(w http.ResponseWriter, r *http.Request, _ string) {
	query := r.URL.Query()
	page, err := positive(query, "page", 1)
	size, errSize := positive(query, "page_size", maxStatuses)
	if err = errors.Join(err, errSize); err != nil {
		failed(w, "Request parameter validation failed", err.Error())
		return
	}
	if size > maxStatuses {
		failed(w, "list sandboxes failed", fmt.Sprintf("page_size must not exceed %d", maxStatuses))
		return
	}
	var found []*Sandbox
	for _, s := range c.all() {
		if s.matches(query) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *Sandbox) int { return strings.Compare(a.ID, b.ID) })
	from := min((page-1)*size, len(found))
	to := min(from+size, len(found))
	items := []map[string]any{}
	for _, s := range found[from:to] {
		item, err := s.item()
		if err != nil {
			failed(w, "list sandboxes failed", err.Error())
			return
		}
		items = append(items, item)
	}
	succeeded(w, map[string]any{"items": items, "total": len(found), "has_more": to < len(found)})
}

func positive(query url.Values, name string, otherwise int) (int, error) {
	if !query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("query.%s: Input should be a positive integer", name)
	}
	return n, nil
}

// matches reports a live sandbox that all filters fit.
func (s *Sandbox) matches(query url.Values) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Running && s.state != Pending {
		return false
	}
	for name, value := range map[string]string{
		"state": string(s.state), "image": s.Image,
		"user_id": s.owner.user, "experiment_id": s.owner.experiment, "namespace": s.owner.namespace,
	} {
		if query.Has(name) && query.Get(name) != value {
			return false
		}
	}
	return true
}

// item is the sandbox in ROCK's own list.
func (s *Sandbox) item() (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spoiled&SpoilNative != 0 {
		return nil, errValidation
	}
	record := s.document()
	item := map[string]any{
		"status": record["phases"], "is_alive": s.state == Running, "stop_time": nil, "start_time": nil,
		"auto_stop_time": stamp(time.Unix(s.expire, 0)),
	}
	for _, name := range []string{
		"sandbox_id", "state", "port_mapping", "host_name", "host_ip", "image", "metadata", "user_id", "experiment_id", "namespace", "cpus",
		"memory", "num_gpus", "accelerator_type", "disk", "start_time", "create_time", "state_history", "rock_authorization_encrypted",
	} {
		if v, ok := record[name]; ok {
			item[name] = v
		}
	}
	if s.spoiled&SpoilValues != 0 {
		item["memory"], item["create_time"], item["start_time"] = "plenty", "yesterday", nil
	}
	return item, nil
}

// batch tells of the sandboxes that are asked for, as far as there are records.
func (c *Cluster) batch(w http.ResponseWriter, r *http.Request, _ string) {
	var req struct {
		SandboxIDs []string `json:"sandbox_ids"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&req); err != nil || req.SandboxIDs == nil {
		failed(w, "Request parameter validation failed", "sandbox_ids: Field required")
		return
	}
	if len(req.SandboxIDs) > maxStatuses {
		failed(w, "batch get sandbox status failed", fmt.Sprintf("sandbox_ids must not exceed %d", maxStatuses))
		return
	}
	sort.Strings(req.SandboxIDs)
	statuses := []map[string]any{}
	for _, id := range slices.Compact(req.SandboxIDs) {
		s := c.Sandbox(id)
		if s == nil || !s.matches(nil) {
			continue
		}
		item, err := s.item()
		if err != nil {
			failed(w, "batch get sandbox status failed", err.Error())
			return
		}
		statuses = append(statuses, item)
	}
	succeeded(w, map[string]any{"statuses": statuses})
}
