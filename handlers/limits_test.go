package handlers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Peek makes the keyring a store that remembers everything.
func (k *keyring) Peek(digest auth.Digest) *auth.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[digest]
}

func limiting(perKey, perSandbox auth.Limits) func(*guarded, *Options) {
	return func(_ *guarded, o *Options) { o.Limits = limit.New(perKey, perSandbox) }
}

// wantLimit checks a 429 that an SDK can read and knows when to repeat.
func wantLimit(t *testing.T, r reply, text string) {
	t.Helper()
	code, message := r.e2b(t)
	if r.status != 429 || code != 429 || r.header.Get("Retry-After") == "" || strings.TrimLeft(r.header.Get("Retry-After"), "0123456789") != "" || !strings.Contains(message, text) {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

// Contract checklist 32.
func TestCreatesAreBoundedByKey(t *testing.T) {
	g := newGuarded(t, limiting(auth.Limits{Creates: 2}, auth.Limits{}))
	g.admin = answerWith(201, unary, `{"sandboxID":"made"}`)
	create := func(key string) reply {
		return g.send(t, "POST", "/sandboxes", unary, `{"templateID":"base"}`, "X-API-Key", key)
	}
	for range 2 {
		if r := create("e2b_a11ce"); r.status != 201 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	hits := g.upstreamHits.Load()
	for range 2 {
		g.wantEnd(t, cause.OK)
	}
	wantLimit(t, create("e2b_a11ce"), "this API key may make 2 a minute")
	g.wantEnd(t, cause.Limit)
	wantLimit(t, create("e2b_c0"), "2 a minute") // alice's, too
	if g.upstreamHits.Load() != hits {
		t.Error("a refused create reached ROCK")
	}
	if r := create("e2b_b0b"); r.status != 201 {
		t.Errorf("another's create: %d %s", r.status, r.body)
	}
	g.keys.keys[auth.DigestOf("e2b_b0b")].Limits.Creates = -1
	for range 5 {
		if r := create("e2b_b0b"); r.status != 201 {
			t.Errorf("a key without this limit: %d %s", r.status, r.body)
		}
	}
}

func TestCallsAreBoundedByTheLimitsOfTheSandboxsKey(t *testing.T) {
	g := newGuarded(t, limiting(auth.Limits{Requests: 1}, auth.Limits{}))
	g.keys.keys[auth.DigestOf("e2b_a11ce")].Limits.Requests = 3
	g.estate.put(mine, routing.Route{State: routing.StateRunning, Cluster: "test",
		Owner: routing.Owner{Subject: "alice", Key: auth.DigestOf("e2b_a11ce")}})
	call := func() reply { return g.try(t, callKinds[2], mine, g.token("alice", mine)) }
	for range 3 {
		if r := call(); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	r := call()
	if code, message := r.connect(t); r.status != 429 || code != "resource_exhausted" || !strings.Contains(message, "3 a second") || r.header.Get("Retry-After") != "1" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	// Whoever has no token uses up nothing of anybody's.
	for range 5 {
		g.try(t, callKinds[2], hers, "wrong")
	}
	if r := g.try(t, callKinds[2], hers, g.token("bob", hers)); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestWhoAsksForTheHealthWithoutATokenUsesUpNothingOfTheOwners(t *testing.T) {
	g := newGuarded(t, limiting(auth.Limits{Requests: 0.01}, auth.Limits{Requests: 0.01})) // one call
	health := kind{"health", "GET", "/health", "", nil}
	if r := g.try(t, health, mine); r.status != 204 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	wantLimit(t, g.try(t, health, mine), "this sandbox may make 0.01 a second")
	if r := g.try(t, callKinds[2], mine, g.token("alice", mine)); r.status != 200 {
		t.Errorf("the owner's call: %d %s", r.status, r.body)
	}
	wantLimit(t, g.try(t, health, mine, g.token("alice", mine)), "this sandbox may make 0.01 a second")
}

func TestStreamsAreBoundedBySandboxAndTold(t *testing.T) {
	g := newGuarded(t, limiting(auth.Limits{}, auth.Limits{Streams: 1}))
	begun, end := make(chan struct{}), make(chan struct{})
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", stream)
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-end
		_, _ = w.Write([]byte(frame(2, "{}")))
	}
	first := make(chan reply)
	go func() { first <- g.try(t, callKinds[0], mine, g.token("alice", mine)) }()
	<-begun
	r := g.try(t, callKinds[0], mine, g.token("alice", mine))
	if code, message := r.endError(t); r.status != 200 || code != "resource_exhausted" || !strings.Contains(message, "this sandbox may have 1 at a time") {
		t.Errorf("%d %s", r.status, r.body)
	}
	close(end)
	<-first
	go func() { <-begun }()
	if r := g.try(t, callKinds[0], mine, g.token("alice", mine)); strings.Contains(r.body, "error") {
		t.Errorf("once the first has ended: %s", r.body)
	}
}

// Field report J06.
func TestABodyIsBoundedWhateverItsLengthIsSaidToBe(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		g := newGuarded(t, limiting(auth.Limits{Body: 100}, auth.Limits{}))
		for size, want := range map[int]int{100: 200, 101: 413} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+"/files?path=%2Fa", &zeros{left: int64(size)})
			if err != nil {
				t.Fatal(err)
			}
			if !chunked {
				r.ContentLength = int64(size)
			}
			r.Header = http.Header{"E2b-Sandbox-Id": {mine}, "E2b-Sandbox-Port": {"49983"}, "X-Access-Token": {g.token("alice", mine)}}
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%d bytes, chunked %t: %d", size, chunked, resp.StatusCode)
			}
		}
	}
}

// Field report N07.
func TestHeadersAreBounded(t *testing.T) {
	for _, target := range []string{"/sandboxes", stat, "/health", "/anything"} {
		g := newGuarded(t, func(_ *guarded, o *Options) { o.MaxHeader = 1000 })
		r := g.send(t, "POST", target, unary, "{}", "X-Long", strings.Repeat("x", 900))
		if r.status != 431 || g.upstreamHits.Load() != 0 {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
	}
}
