package handlers

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// estate is a registry of sandboxes with owners.
type estate struct {
	mu     sync.Mutex
	routes map[string]routing.Route
	err    error // instead of any answer
	asked  int
	slow   time.Duration // for use in a synctest bubble
}

func (e *estate) Lookup(_ context.Context, id string) (*routing.Route, error) {
	time.Sleep(e.slow)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	route, ok := e.routes[id]
	switch {
	case e.err != nil:
		return nil, e.err
	case !ok:
		return nil, routing.ErrGone
	}
	route.SandboxID, route.Lifecycle = id, "life of "+id
	return &route, nil
}

// put changes what the registry has and says.
func (e *estate) put(id string, route routing.Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes[id] = route
}

func (e *estate) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *estate) lookups() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// ring is a store of these API keys, by the key itself.
func ring(keys map[string]*auth.Key) *keyring {
	r := &keyring{keys: map[auth.Digest]*auth.Key{}}
	for raw, key := range keys {
		key.Digest = auth.DigestOf(raw)
		r.keys[key.Digest] = key
	}
	return r
}

// guarded is a rig that lets in who belongs.
type guarded struct {
	*rig
	access *Access
	estate *estate
	keys   *keyring
	cache  *routing.Cache
	got    *http.Request // what reached the proxy role last
}

const mine, hers, stray, nowhere = "mine", "hers", "stray", "nowhere"

func tokenKey(id string) auth.TokenKey {
	return auth.TokenKey{ID: id, Secret: bytes.Repeat([]byte(id), auth.MinTokenSecret)}
}

func tokens(t testing.TB, ids ...string) *auth.Tokens {
	t.Helper()
	var keys []auth.TokenKey
	for _, id := range ids {
		keys = append(keys, tokenKey(id))
	}
	made, err := auth.NewTokens(keys)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func owned(subject string) routing.Route {
	return routing.Route{State: routing.StateRunning, Cluster: "test", Owner: routing.Owner{Subject: subject}}
}

func newGuarded(t *testing.T, change ...func(*guarded, *Options)) *guarded {
	t.Helper()
	g := &guarded{
		estate: &estate{routes: map[string]routing.Route{mine: owned("alice"), hers: owned("bob"), stray: owned("")}},
		keys: ring(map[string]*auth.Key{
			"e2b_a11ce": {Subject: "alice", Scopes: auth.DefaultScopes},
			"e2b_b0b":   {Subject: "bob", Scopes: auth.DefaultScopes},
			"e2b_c0":    {Subject: "alice", Scopes: auth.ScopeControl},
			"e2b_0ff":   {Subject: "alice", Scopes: auth.DefaultScopes, Disabled: true},
			"e2b_ad":    {Subject: "root", Scopes: auth.ScopeAdmin},
		}),
	}
	g.access = &Access{Keys: g.keys, Tokens: tokens(t, "new", "old")}
	g.rig = newRig(t, func(o *Options) {
		g.cache = routing.NewCache(g.estate, routing.CacheOptions{})
		o.Routes, o.Access = g.cache, g.access
		for _, c := range change {
			c(g, o)
		}
	})
	t.Cleanup(g.cache.Close)
	g.gateway.floor = time.Millisecond // its length has tests of its own, with a clock of their own
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		g.got = r.Clone(context.Background())
		if r.URL.Path == "/health" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if p := r.Header.Get("Content-Type"); p == "application/connect+json" || p == "application/connect+proto" {
			answerWith(200, p, frame(2, "{}"))(w, r)
			return
		}
		answerWith(200, r.Header.Get("Content-Type"), "{}")(w, r)
	}
	return g
}

func (g *guarded) token(subject, id string) string {
	return g.access.Tokens.Mint(auth.AccessToken, id, subject)
}

// kind is a way to call envd.
type kind struct {
	name, method, target, contentType string
	headers                           []string
}

// kinds of calls that need a token, and /health.
var callKinds = []kind{
	{"stream in JSON", "POST", start, stream, nil},
	{"stream in proto", "POST", start, "application/connect+proto", nil},
	{"unary", "POST", stat, unary, nil},
	{"gRPC", "POST", start, "application/grpc+proto", nil},
	{"gRPC-Web", "POST", start, "application/grpc-web+proto", nil},
	{"read", "GET", "/files?path=%2Fa", "", nil},
	{"look", "HEAD", "/files?path=%2Fa", "", nil},
	{"write", "POST", "/files?path=%2Fa", "application/octet-stream", nil},
	{"health", "GET", "/health", "", nil},
	{"socket at an RPC", "GET", start, "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
	{"socket at files", "GET", "/files?path=%2Fa", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
	{"socket at health", "GET", "/health", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
}

// try makes the call on a sandbox with values of X-Access-Token.
func (g *guarded) try(t *testing.T, k kind, id string, values ...string) reply {
	t.Helper()
	headers := append([]string{"E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49983"}, k.headers...)
	for _, v := range values {
		headers = append(headers, "X-Access-Token", v)
	}
	r := g.send(t, k.method, k.target, k.contentType, "", headers...)
	r.header.Del("Date")
	r.nameless()
	return r
}

// want is how a call of the kind is told the failure: its status, its body, and
// its gRPC status.
func (k kind) want(f cause.Failure) (status int, body, grpc string) {
	sandbox := ""
	if f.SandboxID != "" {
		sandbox = `"sandboxId":"` + f.SandboxID + `",`
	}
	http := map[cause.Cause]string{cause.Unauthenticated: "401", cause.BadRequest: "400", cause.SandboxGone: "502", cause.Forbidden: "403", cause.TrafficTokenMissing: "403", cause.TrafficTokenWrong: "403", cause.KeysUnavailable: "503", cause.RegistryUnavailable: "503"}[f.Cause]
	number := map[cause.Cause]string{cause.Unauthenticated: "16", cause.BadRequest: "3", cause.SandboxGone: "14", cause.Forbidden: "7", cause.TrafficTokenMissing: "7", cause.TrafficTokenWrong: "7", cause.KeysUnavailable: "10", cause.RegistryUnavailable: "10"}[f.Cause]
	code := map[cause.Cause]string{cause.Unauthenticated: "unauthenticated", cause.BadRequest: "invalid_argument", cause.SandboxGone: "unavailable", cause.Forbidden: "permission_denied", cause.KeysUnavailable: "aborted", cause.RegistryUnavailable: "aborted"}[f.Cause]
	connect := `{"code":"` + code + `","message":"` + f.Text() + `"}`
	status = int(http[0]-'0')*100 + int(http[1]-'0')*10 + int(http[2]-'0')
	switch k.name {
	case "stream in JSON", "stream in proto":
		return 200, frame(2, `{"error":`+connect+`}`), ""
	case "unary", "socket at an RPC":
		return status, connect, ""
	case "gRPC":
		return 200, "", number
	case "gRPC-Web":
		return 200, frame(0x80, "grpc-status: "+number+"\r\ngrpc-message: "+f.Text()+"\r\n"), ""
	case "look":
		return status, "", ""
	default:
		return status, `{` + sandbox + `"message":"` + f.Text() + `","code":` + http + `}`, ""
	}
}

// told checks that the call was told exactly the failure.
func (k kind) told(t *testing.T, r reply, f cause.Failure) {
	t.Helper()
	status, body, grpc := k.want(f)
	if r.err != nil || r.status != status || r.body != body || grpc != "" && r.header.Get("Grpc-Status") != grpc {
		t.Errorf("%d %q %s %v, want %d %q %s", r.status, r.body, r.header.Get("Grpc-Status"), r.err, status, body, grpc)
	}
}
