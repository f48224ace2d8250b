package handlers

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/routing"
)

const sdkPreflight = "connect-protocol-version,connect-timeout-ms,content-type,e2b-sandbox-id,e2b-sandbox-port,x-access-token,keepalive-ping-interval"

// preflight asks as a browser does: without any of the values that will follow.
func (g *rig) preflight(t *testing.T, target, method string, headers ...string) reply {
	t.Helper()
	return g.send(t, http.MethodOptions, target, "", "", append([]string{"Origin", "https://app.test", "Access-Control-Request-Method", method}, headers...)...)
}

// Field report L02, contract checklist 22.
func TestAPreflightIsAnsweredByThePathAlone(t *testing.T) {
	g := newRig(t)
	for target, method := range map[string]string{
		start: "POST", stat: "POST", "/files?path=/x": "GET", "/health": "GET", "/sandboxes": "POST", "/v2/sandboxes": "GET", "/sandboxes/sbx-1": "DELETE",
	} {
		r := g.preflight(t, target, method, "Access-Control-Request-Headers", sdkPreflight, "Access-Control-Request-Headers", "authorization, x-api-key")
		if r.status != 204 || r.body != "" || r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Max-Age") == "" ||
			!strings.Contains(r.header.Get("Access-Control-Allow-Methods"), method) || r.header["Access-Control-Allow-Credentials"] != nil ||
			r.header.Get("Access-Control-Allow-Headers") != strings.ReplaceAll(sdkPreflight, ",", ", ")+", authorization, x-api-key" {
			t.Errorf("%s: %d %v %q", target, r.status, r.header, r.body)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 || g.registry.lookups() != 0 {
		t.Errorf("%d requests, %d lookups", n, g.registry.lookups())
	}
}

func TestAPreflightForNoCallIsRefused(t *testing.T) {
	g := newRig(t)
	for _, tc := range []struct {
		target, method, headers string
		want                    int
	}{
		{"/nothing", "GET", "", 404},
		{"/init", "POST", "", 404},
		{start, "POST", "a b", 400},
		{start, "POST", "x\u00e9", 400},
		{start, "P OST", "x", 400},
		{start, "POST", strings.Repeat("x", maxRequestedHeaders+1), 400},
		{start, "POST", " , ,", 204},
	} {
		r := g.preflight(t, tc.target, tc.method, "Access-Control-Request-Headers", tc.headers)
		if r.status != tc.want || r.header["Access-Control-Allow-Headers"] != nil {
			t.Errorf("%s %s: %d %v", tc.target, tc.method, r.status, r.header)
		}
	}
}

// Field report L02.
func TestAnyOtherOptionsIsACallLikeAnyOther(t *testing.T) {
	g := newRig(t)
	g.proxy = answerWith(200, unary, `{}`)
	for name, headers := range map[string][]string{
		"no method": {"Origin", "https://app.test"},
		"no origin": {"Access-Control-Request-Method", "GET"},
	} {
		before := g.upstreamHits.Load()
		g.call(t, http.MethodOptions, "/files", "", "", headers...)
		if g.upstreamHits.Load() != before+1 {
			t.Errorf("%s: it was not passed on", name)
		}
	}
}

// Field reports L01 and L03.
func TestAPageMayReadEveryAnswerOnce(t *testing.T) {
	g := newRig(t)
	g.admin = answerWith(200, unary, `{}`)
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		if own := r.Header.Get("X-Own"); own != "" {
			w.Header()["Access-Control-Allow-Origin"] = strings.Split(own, " ")
		}
		answerWith(200, unary, `{}`)(w, r)
	}
	check := func(what string, r reply, want ...string) {
		t.Helper()
		if !slices.Equal(r.header["Access-Control-Allow-Origin"], want) || (len(want) > 0) != (len(r.header["Access-Control-Expose-Headers"]) == 1) {
			t.Errorf("%s: %d %v", what, r.status, r.header)
		}
	}
	origin := []string{"Origin", "https://app.test"}
	check("envd's", g.call(t, "POST", stat, unary, "{}", origin...), "*")
	check("ROCK's", g.call(t, "GET", "/sandboxes/sbx-1", "", "", origin...), "*")
	check("no such route", g.call(t, "GET", "/nothing", "", "", origin...), "*")
	check("bad target", g.send(t, "POST", stat, unary, "{}", origin...), "*")
	check("no origin", g.call(t, "POST", stat, unary, "{}"))
	check("upstream's own", g.call(t, "POST", stat, unary, "{}", append(origin, "X-Own", "https://app.test")...), "https://app.test")
	check("upstream's two", g.call(t, "POST", stat, unary, "{}", append(origin, "X-Own", "* *")...), "*")
	g.registry.say(0, routing.ErrGone)
	check("gone", g.send(t, "GET", "/health", "", "", append(origin, "E2b-Sandbox-Id", "gone", "E2b-Sandbox-Port", "49983")...), "*")
}

// Field report L01: a page reads why it is refused, whoever refuses it.
func TestAPageMayReadEveryRefusal(t *testing.T) {
	g := newTown(t, func(_ *guarded, o *Options) { o.Limits = limit.New(auth.Limits{}, auth.Limits{Requests: 1}) })
	token := []string{"X-Access-Token", g.token("alice", mine)}
	const envd, shared = "49983-mine.box.test", "box.test"
	for _, tc := range []struct {
		want               int
		host, method, path string
		headers            []string
	}{
		{400, shared, "POST", stat, nil},
		{401, envd, "POST", stat, nil},
		{401, shared, "GET", "/v2/sandboxes", nil},
		{403, "3000-secluded.box.test", "GET", "/", nil},
		{404, shared, "GET", "/nothing", nil},
		{421, "3000-mine.evil.test", "GET", "/", nil},
		{429, envd, "POST", stat, token},
		{502, "49983-nowhere.box.test", "GET", "/health", nil},
		{502, "3000-nowhere.box.test", "GET", "/", nil},
	} {
		headers := append([]string{"Origin", "https://app.test"}, tc.headers...)
		r := g.visit(t, tc.method, tc.host, tc.path, headers...)
		for range 20 {
			if r.status == tc.want || tc.want != 429 {
				break
			}
			r = g.visit(t, tc.method, tc.host, tc.path, headers...)
		}
		if r.status != tc.want || !slices.Equal(r.header["Access-Control-Allow-Origin"], []string{"*"}) || len(r.header["Access-Control-Expose-Headers"]) != 1 {
			t.Errorf("%d at %s%s: %d %v", tc.want, tc.host, tc.path, r.status, r.header)
		}
		if exposed := r.header.Get("Access-Control-Expose-Headers"); tc.want == 429 && !strings.Contains(exposed, "Retry-After") {
			t.Errorf("nobody may read when to come again: %q", exposed)
		}
	}
	away := newRig(t)
	away.registry.say(0, routing.ErrUnavailable)
	if r := away.call(t, "GET", "/health", "", "", "Origin", "https://app.test"); r.status != 503 || r.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %v", r.status, r.header)
	}
}

func TestWithCORSOffBrowsersAreNobodySpecial(t *testing.T) {
	g := newRig(t, func(o *Options) { o.CORS = CORSOff })
	r := g.preflight(t, start, "POST")
	if r.status != 400 || r.header["Access-Control-Allow-Origin"] != nil {
		t.Errorf("%d %v", r.status, r.header)
	}
}

// Field report L03.
func TestWhoMayReadAnAppsAnswersIsForTheAppToSay(t *testing.T) {
	operators := []string{"*"}
	h := http.Header{allowOrigin: anyOrigin, exposeHeaders: exposed}
	leaveToApp(h)
	if len(h) != 0 {
		t.Errorf("left: %v", h)
	}
	h = http.Header{allowOrigin: operators}
	leaveToApp(h)
	if len(h) != 1 {
		t.Error("what the operator has set was taken away")
	}
}

func FuzzRequestedHeaders(f *testing.F) {
	f.Add(sdkPreflight, "authorization")
	f.Add("a\r\nb", " ,")
	f.Fuzz(func(t *testing.T, a, b string) {
		got, ok := requestedHeaders([]string{a, b})
		if !ok && got != "" {
			t.Errorf("refused, but %q", got)
		}
		if strings.ContainsAny(got, "\r\n\x00") || len(got) > 3*maxRequestedHeaders {
			t.Errorf("%q", got)
		}
	})
}
