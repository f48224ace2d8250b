package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/listing"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// rockRecord is a sandbox as a deployment keeps it.
type rockRecord struct {
	state    string
	started  time.Time
	metadata map[string]string
	memory   string
	owner    routing.Owner // as the registry reads it
	// spoiled records fail each answer that they are in.
	spoiled bool
}

// deployment is a ROCK with both of its lists, its registry and its create.
type deployment struct {
	name string
	mu   sync.Mutex
	all  map[string]*rockRecord
	// down: nobody can dial it. deaf: it answers nobody.
	down, deaf bool
	// e2bOnly: it has no list of its own.
	e2bOnly bool
	// order of the pages of its own list. Default: by id.
	order func(ids []string, page int)
	calls []string
	full  bool // creates fail with 500
	lost  bool // creates lose their connection
}

func (d *deployment) put(id string, r rockRecord) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.state, r.memory = cmp.Or(r.state, "running"), cmp.Or(r.memory, "8.00g")
	if r.started.IsZero() {
		r.started = time.Date(2026, 8, 21, 14, 0, len(d.all), 0, time.UTC)
	}
	if r.owner == (routing.Owner{}) {
		r.owner = routing.ParseOwner(r.metadata[routing.MetadataOwner])
	}
	d.all[id] = &r
}

func (d *deployment) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// took are the calls since the last time, with numbers left out.
func (d *deployment) took() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// Lookup implements routing.Registry.
func (d *deployment) Lookup(ctx context.Context, id string) (*routing.Route, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	record := d.all[id]
	switch {
	case d.down || d.deaf:
		return nil, fmt.Errorf("%w: %s", routing.ErrUnavailable, d.name)
	case record == nil:
		return nil, routing.ErrGone
	}
	state := map[string]routing.State{"running": routing.StateRunning, "pending": routing.StateStarting, "stopped": routing.StatePaused}[record.state]
	return &routing.Route{SandboxID: id, Cluster: d.name, State: state, Lifecycle: "life of " + id, Owner: record.owner}, nil
}

func (d *deployment) roundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	d.calls = append(d.calls, r.Method+" "+r.URL.Opaque+r.URL.Path)
	down, deaf, lost := d.down, d.deaf, d.lost && r.Method == http.MethodPost
	d.mu.Unlock()
	switch {
	case down:
		return nil, &upstream.DialError{Err: errDown}
	case deaf:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case lost:
		return nil, errors.New("connection reset")
	}
	w := httptest.NewRecorder()
	d.serve(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (d *deployment) serve(w http.ResponseWriter, r *http.Request) {
	query, _ := url.ParseQuery(r.URL.RawQuery)
	path := r.URL.Opaque + r.URL.Path
	w.Header().Set("Content-Type", "application/json")
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case path == "/v2/sandboxes":
		d.listE2B(w, query.Get("metadata"))
	case path == "/apis/envs/sandbox/v1/sandboxes" && !d.e2bOnly:
		d.listNative(w, query)
	case path == "/sandboxes" && r.Method == http.MethodPost && !d.full:
		body, _ := io.ReadAll(r.Body)
		var create struct{ Metadata map[string]string }
		_ = json.Unmarshal(body, &create)
		id := cmp.Or(create.Metadata[chosenID], fmt.Sprint(d.name, "-", len(d.all)))
		if d.all[id] != nil {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"code":400,"message":"it exists"}`)
			return
		}
		d.all[id] = &rockRecord{state: "running", started: time.Now(), metadata: create.Metadata, memory: "1g", owner: routing.ParseOwner(create.Metadata[routing.MetadataOwner])}
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"sandboxID":%q,"templateID":"t","clientID":"rock","envdVersion":"0.3.0"}`, id)
	case d.full && r.Method == http.MethodPost:
		w.WriteHeader(500)
		fmt.Fprint(w, `{"code":500,"message":"full"}`)
	case strings.HasPrefix(path, "/sandboxes/"):
		id := strings.TrimPrefix(path, "/sandboxes/")
		switch record := d.all[id]; {
		case record == nil:
			w.WriteHeader(404)
			fmt.Fprintf(w, `{"code":404,"message":"sandbox %s not found"}`, id)
		case r.Method == http.MethodDelete:
			delete(d.all, id)
			w.WriteHeader(204)
		default:
			fmt.Fprintf(w, `{"sandboxID":%q,"state":"paused"}`, id)
		}
	default:
		w.WriteHeader(404)
		fmt.Fprint(w, `{"detail":"Not Found"}`)
	}
}

func (d *deployment) ids() []string {
	var ids []string
	for id := range d.all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (d *deployment) listE2B(w http.ResponseWriter, metadata string) {
	filter, err := listing.ParseQuery("metadata=" + url.QueryEscape(metadata))
	if err != nil || len(filter.Metadata) == 0 {
		w.WriteHeader(400)
		fmt.Fprint(w, `{"code":400,"message":"metadata filter is required"}`)
		return
	}
	items := []map[string]any{}
	for _, id := range d.ids() {
		record := d.all[id]
		if record.state != "running" || !filter.Matches(&listing.Item{Metadata: record.metadata}) {
			continue
		}
		if record.spoiled {
			w.WriteHeader(500)
			fmt.Fprint(w, `{"code":500,"message":"no valid ip"}`)
			return
		}
		shown := map[string]string{routing.MetadataAddress: "10.20.30.41"}
		for k, v := range record.metadata {
			shown[k] = v
		}
		items = append(items, map[string]any{
			"sandboxID": id, "templateID": "base", "clientID": "rock", "envdVersion": "0.3.0", "state": "running", "cpuCount": 2, "memoryMB": 8192,
			"diskSizeMB": 0, "startedAt": record.started.Format(time.RFC3339), "endAt": record.started.Add(time.Hour).Format(time.RFC3339), "metadata": shown,
		})
	}
	_ = json.NewEncoder(w).Encode(items)
}

func (d *deployment) listNative(w http.ResponseWriter, query url.Values) {
	page, _ := strconv.Atoi(query.Get("page"))
	size, _ := strconv.Atoi(query.Get("page_size"))
	ids := slices.DeleteFunc(d.ids(), func(id string) bool { return d.all[id].state != query.Get("state") })
	if d.order != nil {
		d.order(ids, page)
	}
	from := min((page-1)*size, len(ids))
	to := min(from+size, len(ids))
	items := []map[string]any{}
	for _, id := range ids[from:to] {
		record := d.all[id]
		if record.spoiled {
			fmt.Fprint(w, `{"status":"Failed","message":"list failed","error":"1 validation error","result":null}`)
			return
		}
		items = append(items, map[string]any{
			"sandbox_id": id, "state": record.state, "image": "base", "metadata": record.metadata, "cpus": 1.5, "memory": record.memory, "disk": nil,
			"host_ip": "10.20.30.41", "start_time": record.started.Format(time.RFC3339), "auto_stop_time": record.started.Add(time.Hour).Format(time.RFC3339),
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "Success", "result": map[string]any{"items": items, "total": len(ids), "has_more": to < len(ids)}})
}

// clusters is a gateway in front of several deployments, without sockets.
type clusters struct {
	t       *testing.T
	gateway *Gateway
	keys    *keyring
	access  *Access
	names   []string
	rocks   map[string]*deployment
	roles   map[string]*routing.Cluster
	mu      sync.Mutex
	posts   []string // the clusters that were sent a POST
}

// RoundTrip implements Upstream.
func (c *clusters) RoundTrip(r *http.Request) (*http.Response, error) {
	name, _, _ := strings.Cut(r.Host, ".")
	if r.Method == http.MethodPost {
		c.mu.Lock()
		c.posts = append(c.posts, name)
		c.mu.Unlock()
	}
	return c.rocks[name].roundTrip(r)
}

// newClusters makes clusters of these names, the first of which is where creates go by default.
func newClusters(t *testing.T, names ...string) *clusters {
	t.Helper()
	c := &clusters{t: t, names: names, rocks: map[string]*deployment{}, roles: map[string]*routing.Cluster{}}
	c.keys = ring(map[string]*auth.Key{
		alice: {Subject: "alice", Scopes: auth.DefaultScopes}, alicesOther: {Subject: "alice", Scopes: auth.DefaultScopes},
		bob: {Subject: "bob", Scopes: auth.DefaultScopes}, root: {Subject: "root", Scopes: auth.ScopeAdmin},
	})
	c.access = &Access{Keys: c.keys, Tokens: tokens(t, "k")}
	var list []*routing.Cluster
	var members []routing.Member
	for _, name := range names {
		d := &deployment{name: name, all: map[string]*rockRecord{}}
		e, err := routing.ParseEndpoint("http://" + name + ".test")
		if err != nil {
			t.Fatal(err)
		}
		role := routing.NewBalancer([]*routing.Endpoint{e}, func(context.Context, string) error { return errDown })
		t.Cleanup(role.Close)
		c.rocks[name], c.roles[name] = d, &routing.Cluster{Name: name, Mode: routing.ModeRock, Admin: role, Proxy: role}
		list, members = append(list, c.roles[name]), append(members, routing.Member{Cluster: name, Registry: d})
	}
	cache := routing.NewCache(routing.NewUnion(members), routing.CacheOptions{})
	c.gateway = New(Options{Clusters: list, Routes: cache, Upstream: c, Access: c.access})
	c.gateway.floor = time.Millisecond
	t.Cleanup(func() {
		c.gateway.Close()
		cache.Close()
	})
	return c
}

// open lets everybody in.
func (c *clusters) open() { c.gateway.opt.Access = nil }

func (c *clusters) ask(key, method, target, body string, headers ...string) reply {
	r := httptest.NewRequestWithContext(c.t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", unary)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.gateway.Serve(w, r, Both, Stranger, new(Outcome))
	return reply{w.Code, w.Header(), w.Body.String(), nil}
}

// list asks for a list and returns the ids in it.
func (c *clusters) list(key, target string, headers ...string) (string, reply) {
	c.t.Helper()
	r := c.ask(key, "GET", target, "", headers...)
	var items []listing.Item
	if err := json.Unmarshal([]byte(r.body), &items); err != nil || r.status != 200 {
		c.t.Fatalf("%s: %d %s", target, r.status, r.body)
	}
	var ids []string
	for _, i := range items {
		ids = append(ids, i.SandboxID)
	}
	return strings.Join(ids, " "), r
}

// of are the notes of a sandbox of the subject's, and pairs of its own.
func of(subject, key string, pairs ...string) map[string]string {
	m := map[string]string{routing.MetadataOwner: noted(subject, key).Metadata(), routing.MetadataSubject: subject}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// without is metadata without a key.
func without(m map[string]string, key string) map[string]string {
	delete(m, key)
	return m
}
