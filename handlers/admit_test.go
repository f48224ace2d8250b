package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Contract checklist 9, 14, 15, 17, 19; field reports M09, M11, M15.
func TestEveryCallNeedsTheTokenOfItsSandbox(t *testing.T) {
	g := newGuarded(t)
	good := g.token("alice", mine)
	for _, tc := range []struct {
		name    string
		values  []string
		want    cause.Failure
		lookups bool
	}{
		{"none", nil, tokenMissing, false},
		{"empty", []string{""}, tokenWrong, false},
		{"malformed", []string{"x"}, tokenWrong, false},
		{"an API key", []string{"e2b_a11ce"}, tokenWrong, false},
		{"cut", []string{good[:len(good)-1]}, tokenWrong, false},
		{"twice", []string{good, good}, tokenTwice, false},
		{"bad and good", []string{"x", good}, tokenTwice, false},
		{"joined", []string{good + ", " + good}, tokenTwice, false},
		{"of another sandbox", []string{g.token("alice", hers)}, tokenWrong, false},
		{"of another kind", []string{g.access.Tokens.Mint(auth.TrafficToken, mine, "alice")}, tokenWrong, false},
		{"of a removed key", []string{tokens(t, "gone").Mint(auth.AccessToken, mine, "alice")}, tokenWrong, false},
		{"of another owner", []string{g.token("bob", mine)}, cause.Failure{Cause: cause.SandboxGone, SandboxID: mine}, true},
	} {
		for _, k := range callKinds {
			if tc.values == nil && k.name == "health" {
				continue // answered to everybody: TestHealthIsAnsweredWithoutATokenUnlessItIsPrivate
			}
			t.Run(tc.name+"/"+k.name, func(t *testing.T) {
				want, before := tc.want, g.estate.lookups()
				if tc.values == nil && strings.HasPrefix(k.target, "/files?") && k.headers == nil {
					want = signatureMissing
				}
				k.told(t, g.try(t, k, mine, tc.values...), want)
				if asked := g.estate.lookups() - before; asked > 0 && !tc.lookups {
					t.Errorf("the registry was asked %d times", asked)
				}
			})
		}
	}
	if g.upstreamHits.Load() != 0 {
		t.Error("something got through")
	}
}

func TestAGoodTokenOpensEveryCall(t *testing.T) {
	g := newGuarded(t)
	for name, token := range map[string]string{
		"new": g.token("alice", mine), "old": tokens(t, "old").Mint(auth.AccessToken, mine, "alice"),
	} {
		for _, k := range callKinds {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				before := g.upstreamHits.Load()
				if r := g.try(t, k, mine, token); r.status/100 != 2 || g.upstreamHits.Load() == before {
					t.Errorf("%d %s", r.status, r.body)
				}
			})
		}
	}
}

// Who holds a good token may learn that the sandbox is gone, and nothing else of
// a successor of the same name.
func TestAForeignSandboxLooksLikeNone(t *testing.T) {
	for name, passthrough := range map[string]bool{"tokens made here": false, "API keys": true} {
		foreign, none := newGuarded(t), newGuarded(t)
		delete(none.estate.routes, hers)
		token := foreign.token("alice", hers)
		if passthrough {
			foreign.access.Tokens, none.access.Tokens = nil, nil
			token = "e2b_a11ce"
		}
		for _, state := range []routing.State{routing.StateRunning, routing.StatePaused, routing.StateStopped, routing.StateStarting, routing.StateExpired, routing.StateUnknown} {
			route := owned("bob")
			route.State = state
			foreign.estate.put(hers, route)
			foreign.cache.Invalidate(hers)
			t.Run(name+"/"+state.String(), func(t *testing.T) {
				var calls sync.WaitGroup // each takes its time
				for _, k := range callKinds {
					calls.Go(func() {
						for range 2 { // from the registry and from memory
							a, b := foreign.try(t, k, hers, token), none.try(t, k, hers, token)
							if !reflect.DeepEqual(a, b) {
								t.Errorf("%s: foreign %+v\nnone %+v", k.name, a, b)
							}
							k.told(t, a, cause.Failure{Cause: cause.SandboxGone, SandboxID: hers})
						}
					})
				}
				calls.Wait()
			})
		}
		if foreign.upstreamHits.Load() != 0 {
			t.Error("something got through")
		}
		logged := func(g *guarded) map[string]bool {
			lines := map[string]bool{}
			for len(g.outcomes) > 0 {
				line := <-g.outcomes
				line.Trail = nil // has a name by chance, and what the client has sent
				lines[fmt.Sprintf("%+v", line)] = true
			}
			return lines
		}
		if a, b := logged(foreign), logged(none); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the log has of foreign %v\nof none %v", name, a, b)
		}
	}
}

// Nobody must learn from the clock that there is such a sandbox, and nobody who
// once had one of that id that there is another by now.
func TestAForeignSandboxTakesAsLongAsNone(t *testing.T) {
	for name, tc := range map[string]struct {
		tokens *auth.Tokens
		target string
		header string
	}{
		"an API key":           {nil, "/health", "e2b_a11ce"},
		"a wrong signature":    {tokens(t, "new"), "/files?signature=v1_" + strings.Repeat("A", 43), ""},
		"an old owner's token": {tokens(t, "new"), "/health", "made"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &estate{routes: map[string]routing.Route{hers: owned("bob")}, slow: 30 * time.Millisecond}
				cache := routing.NewCache(e, routing.CacheOptions{})
				defer cache.Close()
				g := New(Options{Routes: cache, Access: &Access{Tokens: tc.tokens, Keys: ring(map[string]*auth.Key{"e2b_a11ce": {Subject: "alice", Scopes: auth.ScopeData}})}})
				defer g.Close()
				for range 2 { // from the registry and from memory
					for _, id := range []string{hers, nowhere} {
						r := httptest.NewRequest("GET", tc.target, nil)
						r.Header = http.Header{"E2b-Sandbox-Id": {id}, "E2b-Sandbox-Port": {"49983"}}
						switch tc.header {
						case "":
						case "made":
							r.Header["X-Access-Token"] = []string{tc.tokens.Mint(auth.AccessToken, id, "alice")}
						default:
							r.Header["X-Access-Token"] = []string{tc.header}
						}
						begun := time.Now()
						g.ServeHTTP(httptest.NewRecorder(), r)
						if took := time.Since(begun); took != notFoundFloor {
							t.Errorf("%s took %v", id, took)
						}
					}
				}
			})
		})
	}
}

// Contract checklist 15, 57.
func TestHealthIsAnsweredWithoutATokenUnlessItIsPrivate(t *testing.T) {
	health := kind{"health", "GET", "/health", "", nil}
	g := newGuarded(t)
	if r := g.try(t, health, hers); r.status != 204 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := g.try(t, health, nowhere); r.status != 502 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := g.try(t, kind{"health", "HEAD", "/health", "", nil}, mine); r.status != 204 {
		t.Errorf("HEAD: %d %s", r.status, r.body)
	}
	// Field report M04.
	hits := g.upstreamHits.Load()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO"} {
		health.told(t, g.try(t, kind{"health", method, "/health", "", nil}, mine), tokenMissing)
	}
	body := g.send(t, "GET", "/health", "", "something", "E2b-Sandbox-Id", mine, "E2b-Sandbox-Port", "49983")
	health.told(t, body, tokenMissing)
	if g.upstreamHits.Load() != hits {
		t.Error("something else than the question reached a sandbox")
	}
	other := g.send(t, "GET", "/health", "", "", "E2b-Sandbox-Id", mine, "E2b-Sandbox-Port", "3000")
	health.told(t, other, trafficTokenMissing)
	private := newGuarded(t, func(g *guarded, _ *Options) { g.access.PrivateHealth = true })
	for _, id := range []string{mine, nowhere} {
		health.told(t, private.try(t, health, id), tokenMissing)
	}
	if r := private.try(t, health, mine, private.token("alice", mine)); r.status != 204 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestSandboxesOfNobodyFollowThePolicy(t *testing.T) {
	k := callKinds[2]
	for name, tc := range map[string]struct {
		allow bool
		want  cause.Cause
	}{"deny": {false, cause.SandboxGone}, "allow": {true, cause.OK}} {
		t.Run(name, func(t *testing.T) {
			for _, passthrough := range []string{"", "e2b_a11ce"} {
				g := newGuarded(t, func(g *guarded, _ *Options) { g.access.AllowUnowned = tc.allow })
				token := g.token("", stray)
				if passthrough != "" {
					g.access.Tokens, token = nil, passthrough
				}
				g.try(t, k, stray, token)
				g.wantEnd(t, tc.want)
			}
		})
	}
}

// ROCK's own record names the key that made a sandbox, and not its subject.
func TestTheOwnerMayBeKnownByItsKey(t *testing.T) {
	g := newGuarded(t)
	byKey := func(key string) routing.Route {
		return routing.Route{State: routing.StateRunning, Cluster: "test", Owner: routing.Owner{Key: auth.DigestOf(key)}}
	}
	g.estate.put("made-by-alice", byKey("e2b_a11ce"))
	g.estate.put("made-by-void", byKey("e2b_0ff"))
	g.estate.put("made-by-unknown", byKey("e2b_123"))
	k := callKinds[2]
	for _, tc := range []struct {
		id, subject string
		want        cause.Cause
	}{
		{"made-by-alice", "alice", cause.OK},
		{"made-by-alice", "bob", cause.SandboxGone},
		{"made-by-void", "alice", cause.OK},
		{"made-by-unknown", "alice", cause.SandboxGone},
	} {
		g.try(t, k, tc.id, g.token(tc.subject, tc.id))
		g.wantEnd(t, tc.want)
	}
	g.keys.err = auth.ErrUnavailable
	for _, k := range callKinds {
		k.told(t, g.try(t, k, "made-by-alice", g.token("alice", "made-by-alice")), cause.Failure{Cause: cause.KeysUnavailable})
	}
}

func TestAnAPIKeyIsTheTokenWithPassthrough(t *testing.T) {
	g := newGuarded(t, func(g *guarded, _ *Options) { g.access.Tokens = nil })
	k := callKinds[2]
	for _, tc := range []struct {
		name, key, id string
		want          cause.Cause
		lookups       bool
	}{
		{"the owner's", "e2b_a11ce", mine, cause.OK, true},
		{"another's", "e2b_b0b", mine, cause.SandboxGone, true},
		{"an admin's", "e2b_ad", mine, cause.OK, true},
		{"an admin's, of nobody's", "e2b_ad", stray, cause.OK, true},
		{"for the control plane only", "e2b_c0", mine, cause.Forbidden, false},
		{"disabled", "e2b_0ff", mine, cause.Unauthenticated, false},
		{"unknown", "e2b_999", mine, cause.Unauthenticated, false},
		{"a token", g.rigToken(t), mine, cause.Unauthenticated, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g.cache.Invalidate(tc.id)
			before := g.estate.lookups()
			g.try(t, k, tc.id, tc.key)
			g.wantEnd(t, tc.want)
			if asked := g.estate.lookups() > before; asked != tc.lookups {
				t.Errorf("the registry was asked: %v", asked)
			}
		})
	}
	for _, k := range callKinds {
		g.keys.err = auth.ErrUnavailable
		k.told(t, g.try(t, k, mine, "e2b_a11ce"), cause.Failure{Cause: cause.KeysUnavailable})
		g.keys.err = nil
		k.told(t, g.try(t, k, mine, "e2b_c0"), cause.Failure{Cause: cause.Forbidden})
	}
}

func (g *guarded) rigToken(t *testing.T) string {
	return tokens(t, "new").Mint(auth.AccessToken, mine, "alice")
}

// Only a registry that was asked says "gone".
func TestWhatIsRememberedShutsNoOwnerOut(t *testing.T) {
	k := callKinds[2]
	g := newGuarded(t)
	g.try(t, k, mine, g.token("alice", mine))
	g.wantEnd(t, cause.OK)
	g.estate.put(mine, owned("bob")) // the id is another's now, and in memory still alice's
	g.try(t, k, mine, g.token("bob", mine))
	g.wantEnd(t, cause.OK)
	g.try(t, k, mine, g.token("alice", mine))
	g.wantEnd(t, cause.SandboxGone)

	g.estate.fail(routing.ErrUnavailable)
	for _, id := range []string{mine, nowhere} {
		k.told(t, g.try(t, k, id, g.token("alice", id)), cause.Failure{Cause: cause.RegistryUnavailable, SandboxID: id})
		g.wantEnd(t, cause.RegistryUnavailable)
	}
}

func TestAStaleRouteIsServedToItsOwnerOnly(t *testing.T) {
	k := callKinds[2]
	for _, passthrough := range []bool{false, true} {
		g := newGuarded(t, func(g *guarded, o *Options) {
			g.cache.Close()
			g.cache = routing.NewCache(g.estate, routing.CacheOptions{TTL: time.Nanosecond})
			o.Routes = g.cache
		})
		alice, bob := g.token("alice", mine), g.token("bob", mine)
		if passthrough {
			g.access.Tokens, alice, bob = nil, "e2b_a11ce", "e2b_b0b"
		}
		g.try(t, k, mine, alice)
		g.wantEnd(t, cause.OK)
		g.estate.fail(routing.ErrUnavailable)
		g.try(t, k, mine, alice)
		if out := <-g.outcomes; out.End != cause.OK || out.Lookup != routing.SourceStale {
			t.Errorf("%v, %v", out.End, out.Lookup)
		}
		k.told(t, g.try(t, k, mine, bob), cause.Failure{Cause: cause.RegistryUnavailable, SandboxID: mine})
	}
}

// That there is a record which cannot be read is its owner's to know.
func TestABrokenRecordIsToldToAHolderOfItsTokenOnly(t *testing.T) {
	k := callKinds[2]
	g := newGuarded(t)
	g.estate.fail(routing.ErrMalformed)
	g.try(t, k, mine, g.token("alice", mine))
	g.wantEnd(t, cause.RouteUnusable)
	g.access.Tokens = nil
	k.told(t, g.try(t, k, mine, "e2b_a11ce"), cause.Failure{Cause: cause.RegistryUnavailable, SandboxID: mine})
}

// Nobody can say at the moment whose it was.
func TestAStoppedSandboxWithoutARecordIsAnsweredAsBefore(t *testing.T) {
	g := newGuarded(t)
	g.estate.put(mine, routing.Route{State: routing.StateStopped, Problem: "the admin role is silent"})
	g.try(t, callKinds[2], mine, g.token("alice", mine))
	if out := <-g.outcomes; out.End != cause.SandboxStopped || out.Err == nil || out.Err.Error() != "the admin role is silent" {
		t.Errorf("%v: %v", out.End, out.Err)
	}
	link := g.link(t, mine, "alice", auth.ReadFile, "/files?path=%2Fa")
	g.try(t, kind{"read", "GET", link, "", nil}, mine)
	g.wantEnd(t, cause.RegistryUnavailable)
}

func TestAMissingClientIsNotTurnedAway(t *testing.T) {
	g := newGuarded(t, func(g *guarded, _ *Options) { g.access.Tokens = nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.keys.err = errors.Join(auth.ErrUnavailable, ctx.Err())
	r := httptest.NewRequest("POST", stat, nil).WithContext(ctx)
	r.Header = http.Header{"E2b-Sandbox-Id": {mine}, "E2b-Sandbox-Port": {"49983"}, "X-Access-Token": {"e2b_a11ce"}}
	defer func() {
		if ended := recover(); ended != http.ErrAbortHandler {
			t.Errorf("it was answered: %v", ended)
		}
	}()
	g.gateway.ServeHTTP(httptest.NewRecorder(), r)
}

// authorise is what a call with a cached route goes through for its
// authorisation, but for what it goes through without any.
func authorise(t testing.TB, access *Access) func() {
	e := &estate{routes: map[string]routing.Route{mine: owned("alice")}}
	cache := routing.NewCache(e, routing.CacheOptions{TTL: time.Hour})
	g := New(Options{Routes: cache, Access: access})
	t.Cleanup(func() { g.Close(); cache.Close() })
	r := httptest.NewRequest("POST", start, nil)
	r.Header = http.Header{"X-Access-Token": {tokens(t, "new").Mint(auth.AccessToken, mine, "alice")}}
	op, target := routing.Classify("POST", start), routing.Target{SandboxID: mine, Port: routing.EnvdPort}
	return func() {
		shown, f, err := g.opt.Access.examine(r, op, target)
		if f.Cause == cause.OK {
			_, _, f, err = g.lookup(r.Context(), shown, target.SandboxID)
		}
		if f.Cause != cause.OK || err != nil {
			t.Fatal(f.Cause, err)
		}
	}
}

// Under the race detector pools forget things, so the least of many runs counts.
func TestAuthorisingACachedCallAllocatesAtMostTwice(t *testing.T) {
	call := authorise(t, &Access{Keys: &keyring{}, Tokens: tokens(t, "new", "old")})
	least := 1e9
	for range 100 {
		least = min(least, testing.AllocsPerRun(1, call))
	}
	if least > 2 {
		t.Errorf("%v allocations", least)
	}
}

func BenchmarkAuthoriseCached(b *testing.B) {
	for name, access := range map[string]*Access{
		"nobody": nil, "tokens": {Keys: &keyring{}, Tokens: tokens(b, "new", "old")},
	} {
		b.Run(name, func(b *testing.B) {
			call := authorise(b, access)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
