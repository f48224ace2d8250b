package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// The API keys that a desk knows.
const (
	alice       = "e2b_a11ce"
	alicesOther = "e2b_a11ce2"
	bob         = "e2b_b0b"
	root        = "e2b_adm19"
	watcher     = "e2b_data" // scope data only
	clerk       = "e2b_c0de" // scope control only
	expired     = "e2b_01d"
	disabled    = "e2b_0ff"
	stranger    = "e2b_00"
)

// keyring is a store of API keys.
type keyring struct {
	mu   sync.Mutex
	keys map[auth.Digest]*auth.Key
	err  error
}

func (k *keyring) Lookup(_ context.Context, digest auth.Digest) (*auth.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return nil, k.err
	}
	if key := k.keys[digest]; key != nil {
		return key, nil
	}
	return nil, auth.ErrUnknownKey
}

// records is a registry with a record for each sandbox.
type records struct {
	mu     sync.Mutex
	routes map[string]*routing.Route
	err    error
	asked  int
}

func (r *records) Lookup(_ context.Context, id string) (*routing.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	switch route := r.routes[id]; {
	case r.err != nil:
		return nil, r.err
	case route == nil:
		return nil, routing.ErrGone
	default:
		own := *route
		return &own, nil
	}
}

func (r *records) set(id string, state routing.State, owner routing.Owner) {
	r.put(&routing.Route{SandboxID: id, State: state, Lifecycle: "life1", Owner: owner})
}

func (r *records) put(route *routing.Route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes[route.SandboxID] = route
}

func (r *records) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.routes, id)
}

func (r *records) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// desk is a gateway's control plane with access on, without sockets, so that
// time can be a test's own. ROCK holds alices and bobs sandboxes, and one that is
// nobody's.
type desk struct {
	gateway *Gateway
	keys    *keyring
	records *records
	tokens  *auth.Tokens
	access  *Access
	// rock answers what is sent on.
	rock http.HandlerFunc
	mu   sync.Mutex
	sent []sentOn
}

// sentOn is a request that ROCK got.
type sentOn struct {
	*http.Request
	body string
}

// RoundTrip implements Upstream. An error that rock panics with is what becomes of the
// request.
func (d *desk) RoundTrip(r *http.Request) (_ *http.Response, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			panic(p)
		}
	}()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	d.mu.Lock()
	d.sent = append(d.sent, sentOn{r, string(body)})
	d.mu.Unlock()
	w := httptest.NewRecorder()
	d.rock(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// noted is the owner as the gateway notes it with a sandbox.
func noted(subject, key string) routing.Owner {
	return routing.Owner{Subject: subject, Key: auth.DigestOf(key)}
}

func newDesk(t testing.TB) *desk { return newDeskWith(t, func(*Options) {}) }

func newDeskWith(t testing.TB, change func(*Options)) *desk {
	t.Helper()
	d := &desk{keys: &keyring{keys: map[auth.Digest]*auth.Key{}}, records: &records{routes: map[string]*routing.Route{}}}
	add := func(secret, subject string, scopes auth.Scopes) *auth.Key {
		key := &auth.Key{Digest: auth.DigestOf(secret), Subject: subject, Scopes: scopes}
		d.keys.keys[key.Digest] = key
		return key
	}
	add(alice, "alice", auth.DefaultScopes).Tenant = auth.Tenant{UserID: "u-alice", Namespace: "research"}
	add(alicesOther, "alice", auth.DefaultScopes)
	add(bob, "bob", auth.DefaultScopes)
	add(root, "root", auth.ScopeAdmin)
	add(watcher, "alice", auth.ScopeData)
	add(clerk, "alice", auth.ScopeControl)
	add(expired, "alice", auth.DefaultScopes).Expires = longAgo
	add(disabled, "alice", auth.DefaultScopes).Disabled = true
	d.records.set("alices", routing.StateRunning, noted("alice", alice))
	d.records.set("bobs", routing.StateRunning, noted("bob", bob))
	d.records.set("nobodys", routing.StateRunning, routing.Owner{})
	tokens, err := auth.NewTokens([]auth.TokenKey{{ID: "k", Secret: bytes.Repeat([]byte("s"), auth.MinTokenSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	d.tokens = tokens
	d.access = &Access{Keys: d.keys, Tokens: tokens}
	d.rock = answerWith(200, unary, `{}`)
	e, err := routing.ParseEndpoint("http://rock:8080")
	if err != nil {
		t.Fatal(err)
	}
	role := routing.NewBalancer([]*routing.Endpoint{e}, nil)
	cluster := &routing.Cluster{Name: "test", Mode: routing.ModeRock, Admin: role, Proxy: role}
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: d.records}}), routing.CacheOptions{})
	opt := Options{Clusters: []*routing.Cluster{cluster}, Routes: cache, Upstream: d, Access: d.access}
	change(&opt)
	d.gateway = New(opt)
	t.Cleanup(func() {
		d.gateway.Close()
		cache.Close()
		role.Close()
	})
	return d
}

// ask makes a call, with the key if that is not "".
func (d *desk) ask(key, method, target, body string, headers ...string) reply {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", unary)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.gateway.Serve(w, r, Both, Stranger, new(Outcome))
	return reply{w.Code, w.Header(), w.Body.String(), nil}
}

// took returns what was sent to ROCK since the last time.
func (d *desk) took() []sentOn {
	d.mu.Lock()
	defer d.mu.Unlock()
	sent := d.sent
	d.sent = nil
	return sent
}

var (
	errDown = errors.New("down")
	errLost = errors.New("the connection was lost")
)
