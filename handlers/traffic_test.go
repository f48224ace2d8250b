package handlers

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/routing"
)

const (
	textTrafficMissing = `{"message":"Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing","code":403}`
	textTrafficWrong   = `{"message":"Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid","code":403}`
	textTokenWrong     = `{"message":"The access token in the header X-Access-Token is not valid for this sandbox","code":401}`
	textSecludedGone   = `{"sandboxId":"secluded","message":"The sandbox secluded was not found: it was killed, it expired, or it never existed","code":502}`
)

// Contract checklist 20; field reports K08, M09 and M10.
func TestAPrivatePortAsksForAToken(t *testing.T) {
	const traffic, access = "E2b-Traffic-Access-Token", "X-Access-Token"
	for name, private := range map[string]bool{"by its creator": false, "by the operator": true} {
		g := newTown(t, func(g *guarded, _ *Options) { g.access.PublicTraffic = !private })
		id := secluded
		good, right := g.traffic(id), g.token("alice", id)
		for _, tc := range []struct {
			name    string
			headers []string
			status  int
			body    string
		}{
			{"nothing", nil, 403, textTrafficMissing},
			{"the traffic token", []string{traffic, good}, 200, ""},
			{"the access token", []string{access, right}, 200, ""},
			{"both", []string{traffic, good, access, right}, 200, ""},
			{"a right and a wrong one", []string{traffic, "x", access, right}, 200, ""},
			{"a wrong and a right one", []string{traffic, good, access, "x"}, 200, ""},
			{"a wrong traffic token", []string{traffic, "x"}, 403, textTrafficWrong},
			{"an empty one", []string{traffic, ""}, 403, textTrafficWrong},
			{"one of another sandbox", []string{traffic, g.traffic(mine)}, 403, textTrafficWrong},
			{"an access token in its place", []string{traffic, right}, 403, textTrafficWrong},
			{"two wrong ones", []string{traffic, "x", access, "y"}, 403, textTrafficWrong},
			{"a wrong access token", []string{access, "x"}, 401, textTokenWrong},
			{"a traffic token in its place", []string{access, good}, 401, textTokenWrong},
			{"the header with an X", []string{"X-E2b-Traffic-Access-Token", good}, 403, textTrafficMissing},
			{"a signature", []string{"Cookie", "signature=v1_x"}, 403, textTrafficMissing},
			{"twice", []string{traffic, good, traffic, good}, 400, `{"message":"The header e2b-traffic-access-token must be sent at most once, with one value","code":400}`},
			{"the access token twice", []string{access, right, access, right}, 400, `{"message":"The header X-Access-Token must be sent at most once, with one value","code":400}`},
			{"somebody else's", []string{traffic, g.access.Tokens.Mint(auth.TrafficToken, id, "bob")}, 502, textSecludedGone},
		} {
			hits := g.upstreamHits.Load()
			r := g.visit(t, "GET", "3000-"+id+".box.test", "/", tc.headers...)
			if r.status != tc.status || tc.body != "" && r.body != tc.body || (g.upstreamHits.Load() > hits) != (tc.status == 200) {
				t.Errorf("%s, %s: %s", name, tc.name, shown(r))
			}
			if strings.Contains(r.header.Get("Location"), "/") {
				t.Errorf("%s, %s: sent to %s", name, tc.name, r.header.Get("Location"))
			}
			// Whoever knows a host has the same from the shared one.
			over := g.visit(t, "GET", "box.test", "/", append([]string{"E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "3000"}, tc.headers...)...)
			if shown(over) != shown(r) {
				t.Errorf("%s, %s: by headers %s", name, tc.name, shown(over))
			}
		}
		if r := g.visit(t, "GET", "3000-"+id+".box.test", "/", traffic, good); !strings.Contains(r.header.Get("Vary"), "E2b-Traffic-Access-Token") {
			t.Errorf("a cache would give it to anybody: %v", r.header)
		}
		// Envd's port knows no traffic tokens.
		if r := g.visit(t, "POST", "49983-"+id+".box.test", stat, traffic, good); r.status != 401 {
			t.Errorf("%s: %s", name, shown(r))
		}
	}
}

func TestAPublicPortAsksForNothingAndBelievesNothing(t *testing.T) {
	g := newTown(t)
	for _, headers := range [][]string{
		nil, {"X-Access-Token", "an app's own"}, {"E2b-Traffic-Access-Token", "x"}, {"E2b-Traffic-Access-Token", g.traffic(mine)}, {"X-Access-Token", "a", "X-Access-Token", "b"},
	} {
		for _, id := range []string{mine, hers, stray} {
			if r := g.visit(t, "GET", "3000-"+id+".box.test", "/", headers...); r.status != 200 {
				t.Errorf("%s, %q: %s", id, headers, shown(r))
			}
		}
		if r := g.visit(t, "GET", "3000-nowhere.box.test", "/", headers...); r.status != 502 || !strings.Contains(r.body, "was not found") {
			t.Errorf("%q: %s", headers, shown(r))
		}
	}
	// Envd's is never public.
	if r := g.visit(t, "POST", "49983-mine.box.test", stat); r.status != 401 {
		t.Error(shown(r))
	}
	for range len(g.outcomes) {
		if out := <-g.outcomes; out.Subject != "" {
			t.Errorf("whose it is is in the log of a visitor: %+v", out)
		}
	}
}

// README, "Which check comes when": whoever has shown nothing costs nothing.
func TestWithPrivateTrafficNothingIsLookedUpForVisitors(t *testing.T) {
	g := newTown(t, func(g *guarded, _ *Options) { g.access.PublicTraffic = false })
	for _, id := range []string{mine, hers, nowhere} {
		if r := g.visit(t, "GET", "3000-"+id+".box.test", "/", "E2b-Traffic-Access-Token", "x"); r.body != textTrafficWrong {
			t.Error(shown(r))
		}
	}
	if g.estate.lookups() != 0 {
		t.Errorf("%d lookups", g.estate.lookups())
	}
}

func TestWithAPIKeysForTokensAKeyOpensAPrivatePort(t *testing.T) {
	g := newTown(t, func(g *guarded, _ *Options) { g.access.Tokens = nil })
	for key, want := range map[string]int{"e2b_a11ce": 200, "e2b_ad": 200, "e2b_b0b": 502, "e2b_c0": 403, "e2b_0ff": 401, "x": 401} {
		if r := g.visit(t, "GET", "3000-secluded.box.test", "/", "X-Access-Token", key); r.status != want {
			t.Errorf("%s: %s", key, shown(r))
		}
	}
	if r := g.visit(t, "GET", "3000-secluded.box.test", "/", "E2b-Traffic-Access-Token", "e2b_a11ce"); r.body != textTrafficWrong {
		t.Error(shown(r))
	}
	// What nobody needs to show is not asked about.
	g.keys.mu.Lock()
	g.keys.err = routing.ErrUnavailable
	g.keys.mu.Unlock()
	if r := g.visit(t, "GET", "3000-mine.box.test", "/", "X-Access-Token", "e2b_a11ce"); r.status != 200 {
		t.Error(shown(r))
	}
	if r := g.visit(t, "GET", "3000-secluded.box.test", "/", "X-Access-Token", "e2b_a11ce"); r.status != 503 {
		t.Error(shown(r))
	}
}

// Field report M09: closed where nothing could open it.
func TestWithoutKeysAPrivatePortIsClosed(t *testing.T) {
	g := newTown(t, func(_ *guarded, o *Options) { o.Access = nil })
	if r := g.visit(t, "GET", "3000-mine.box.test", "/"); r.status != 200 {
		t.Error(shown(r))
	}
	r := g.visit(t, "GET", "3000-secluded.box.test", "/", "E2b-Traffic-Access-Token", g.traffic(secluded))
	if r.status != 403 || !strings.Contains(r.body, "private") {
		t.Error(shown(r))
	}
}

// Field report L02.
func TestAPreflightGoesToAnAppThatIsOpenAndNowhereElse(t *testing.T) {
	g := newTown(t)
	g.app(answerWith(200, "text/plain", "the app's own"))
	ask := func(host string) reply {
		return g.visit(t, "OPTIONS", host, "/any/path", "Origin", "https://a.test", "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "x-own")
	}
	if r := ask("3000-mine.box.test"); r.status != 200 || r.body != "the app's own" || r.header["Access-Control-Allow-Origin"] != nil {
		t.Errorf("%s %v", shown(r), r.header)
	}
	closed := ask("3000-secluded.box.test")
	if closed.status != 204 || closed.header.Get("Access-Control-Allow-Headers") != "x-own" || closed.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%s %v", shown(closed), closed.header)
	}
	for _, host := range []string{"3000-nowhere.box.test"} {
		if r := ask(host); shown(r) != shown(closed) {
			t.Errorf("%s: %s %v", host, shown(r), r.header)
		}
	}
	if r := ask("49983-mine.box.test"); r.status != 404 {
		t.Error(shown(r)) // no call of envd's
	}
	if r := g.visit(t, "OPTIONS", "49983-nowhere.box.test", "/files", "Origin", "https://a.test", "Access-Control-Request-Method", "POST"); r.status != 204 {
		t.Error(shown(r))
	}
	asked := g.estate.lookups()
	g.access.PublicTraffic = false
	if r := ask("3000-other.box.test"); shown(r) != shown(closed) || g.estate.lookups() != asked {
		t.Errorf("%s after %d lookups", shown(r), g.estate.lookups()-asked)
	}
	// Any other OPTIONS is a call.
	g.access.PublicTraffic = true
	if r := g.visit(t, "OPTIONS", "3000-mine.box.test", "/"); r.body != "the app's own" {
		t.Error(shown(r))
	}
}

// Field report M11: as with any other token, a foreign sandbox takes as long as
// none.
func TestAForeignPrivatePortTakesAsLongAsNone(t *testing.T) {
	g := newTown(t)
	g.gateway.floor = 50 * time.Millisecond
	for id, want := range map[string]string{secluded: textSecludedGone, nowhere: strings.ReplaceAll(textSecludedGone, secluded, nowhere)} {
		g.access.PublicTraffic = false
		begun := time.Now()
		r := g.visit(t, "GET", "3000-"+id+".box.test", "/", "E2b-Traffic-Access-Token", g.access.Tokens.Mint(auth.TrafficToken, id, "bob"))
		if r.body != want || time.Since(begun) < g.gateway.floor {
			t.Errorf("%s: %s after %v", id, shown(r), time.Since(begun))
		}
	}
}

func TestVisitorsUseUpNothingOfTheOwners(t *testing.T) {
	g := newTown(t, func(_ *guarded, o *Options) {
		o.Limits = limit.New(auth.Limits{}, auth.Limits{Requests: 2})
	})
	visit := func(headers ...string) int {
		return g.visit(t, "GET", "3000-secluded.box.test", "/", headers...).status
	}
	over := 0
	for range 10 {
		if g.visit(t, "GET", "3000-mine.box.test", "/").status == 429 {
			over++
		}
	}
	if over == 0 {
		t.Error("visitors are not limited")
	}
	if got := g.visit(t, "POST", "49983-mine.box.test", stat, "X-Access-Token", g.token("alice", mine)).status; got != 200 {
		t.Errorf("the owner gets %d", got)
	}
	over = 0
	for range 10 {
		if visit("E2b-Traffic-Access-Token", g.traffic(secluded)) == 429 {
			over++
		}
	}
	if over == 0 {
		t.Error("holders of a token are not limited")
	}
}
