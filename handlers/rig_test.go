package handlers

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// registry is a registry that a test sets.
type registry struct {
	mu    sync.Mutex
	route *routing.Route
	err   error
	asked int
	push  chan string
	// mapping answers questions for the ports of a route without them.
	mapping func(*routing.Route) (*routing.Route, error)
}

// Map implements routing.Mapper.
func (r *registry) Map(_ context.Context, route *routing.Route) (*routing.Route, error) {
	return r.mapping(route)
}

// Watch implements routing.Watcher.
func (r *registry) Watch(ctx context.Context, changed func(string)) {
	for {
		select {
		case id := <-r.push:
			changed(id)
		case <-ctx.Done():
			return
		}
	}
}

func (r *registry) Lookup(_ context.Context, id string) (*routing.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.err != nil {
		return nil, r.err
	}
	route := *r.route
	route.SandboxID = id
	return &route, nil
}

func (r *registry) say(state routing.State, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.route, r.err = &routing.Route{State: state, Lifecycle: "life1"}, err
}

// lookups is how often it was asked.
func (r *registry) lookups() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// rig is a gateway on a real socket, in front of two roles that a test scripts.
type rig struct {
	*httptest.Server
	gateway      *Gateway
	registry     *registry
	admin, proxy http.HandlerFunc
	cluster      *routing.Cluster
	outcomes     chan Outcome
	upstreamHits atomic.Int32
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	g := &rig{registry: &registry{push: make(chan string)}, outcomes: make(chan Outcome, 1000)}
	g.registry.say(routing.StateRunning, nil)
	g.admin = answerWith(404, unary, `{"code":404,"message":"not found"}`)
	role := func(h *http.HandlerFunc) *routing.Balancer {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.upstreamHits.Add(1)
			(*h)(w, r)
		}))
		t.Cleanup(s.Close)
		e, err := routing.ParseEndpoint(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		return routing.NewBalancer([]*routing.Endpoint{e}, nil)
	}
	g.cluster = &routing.Cluster{Name: "test", Mode: routing.ModeRock, Admin: role(&g.admin), Proxy: role(&g.proxy)}
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: g.registry}}), routing.CacheOptions{})
	ctx, stop := context.WithCancel(context.Background())
	go cache.Run(ctx)
	tr := upstream.New(upstream.Config{})
	opt := Options{Clusters: []*routing.Cluster{g.cluster}, Routes: cache, Upstream: tr, LookBound: 250 * time.Millisecond}
	for _, c := range change {
		c(&opt)
	}
	g.gateway = New(opt)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out Outcome
		g.gateway.Serve(w, r, Both, Stranger, &out)
		g.outcomes <- out
		if out.Abort {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(func() {
		g.Server.Close()
		g.gateway.Close()
		tr.CloseIdle()
		g.cluster.Admin.Close()
		g.cluster.Proxy.Close()
		stop()
		cache.Close()
	})
	return g
}

// answerWith is a role that answers everything in one way.
func answerWith(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// nameless takes the name of the request out of an answer, which is by chance, for who
// compares answers.
func (r reply) nameless() reply {
	delete(r.header, HeaderRequestID)
	return r
}

// call sends a data-plane request with the routing headers of an SDK.
func (g *rig) call(t *testing.T, method, target, contentType, body string, headers ...string) reply {
	t.Helper()
	all := append([]string{"E2b-Sandbox-Id", "sbx-1", "E2b-Sandbox-Port", "49983"}, headers...)
	return g.send(t, method, target, contentType, body, all...)
}

func (g *rig) send(t *testing.T, method, target, contentType, body string, headers ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, g.URL+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

const (
	stream = "application/connect+json"
	unary  = "application/json"
	start  = "/process.Process/Start"
	stat   = "/filesystem.Filesystem/Stat"
)

func (r reply) e2b(t *testing.T) (code int, message string) {
	t.Helper()
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Fatalf("%d %q: %v", r.status, r.body, err)
	}
	return e.Code, e.Message
}

func (r reply) connect(t *testing.T) (code, message string) {
	t.Helper()
	var e struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Fatalf("%d %q: %v", r.status, r.body, err)
	}
	return e.Code, e.Message
}

// frames takes a Connect stream apart.
func (r reply) frames(t *testing.T) (messages []string, end string) {
	t.Helper()
	b := []byte(r.body)
	for len(b) > 0 {
		if len(b) < envelope.PrefixSize {
			t.Fatalf("half a prefix: %q", b)
		}
		n := int(b[1])<<24 | int(b[2])<<16 | int(b[3])<<8 | int(b[4])
		if len(b) < n+envelope.PrefixSize || end != "" {
			t.Fatalf("half a frame, or one after EndStream: %q", b)
		}
		payload := string(b[5 : 5+n])
		if b[0]&envelope.FlagEndStream != 0 {
			end = payload
		} else {
			messages = append(messages, payload)
		}
		b = b[5+n:]
	}
	if r.err != nil {
		t.Fatalf("the stream did not end cleanly: %v", r.err)
	}
	if end == "" {
		t.Fatalf("no EndStream in %q", r.body)
	}
	return messages, end
}

// endError is the error of EndStream.
func (r reply) endError(t *testing.T) (code, message string) {
	t.Helper()
	_, end := r.frames(t)
	var e struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	if err := json.Unmarshal([]byte(end), &e); err != nil {
		t.Fatalf("%q: %v", end, err)
	}
	return e.Error.Code, e.Error.Message
}

func frame(flags byte, payload string) string {
	return string(envelope.Append(nil, flags, []byte(payload)))
}

func (g *rig) wantEnd(t *testing.T, want cause.Cause) {
	t.Helper()
	if out := <-g.outcomes; out.End != want {
		t.Errorf("the request ended as %v, want %v (%v)", out.End, want, out.Err)
	}
}
