package handlers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// Contract checklist 3 and 12; field reports E11 and M03.
func TestEveryMethodAndPathOfAnAppIsItsOwn(t *testing.T) {
	g := newTown(t)
	g.app(answerWith(200, "text/plain", "x"))
	for _, target := range []string{
		"/", "/init", "//init", "/sandboxes", "/health", "/files?path=/x", "/process.Process/Start", "/apis/envs/sandbox/v1/get_token",
		"/a%2Fb/%2e/c//d?x=%2B&y=1+2&z&z=&metadata=k%3Dv%2526w", "/a/../b;c", "/?", "/%00", "/a%20b?signature=v1_x",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "PURGE"} {
			c := g.dial(t)
			fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: 3000-mine.box.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method, target)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 200 || g.got.RequestURI != target || g.got.Method != method || g.got.Host != "3000-mine.box.test" {
				t.Errorf("%s %s: %s, arrived as %s %s at %s", method, target, resp.Status, g.got.Method, g.got.RequestURI, g.got.Host)
			}
		}
	}
}

// Field reports E13, M07 and M08; README, "What reaches whom".
func TestAnAppGetsNothingThatIsTheGateways(t *testing.T) {
	g := newTown(t)
	r := g.visit(t, "POST", "3000-mine.box.test", "/", "E2b-Sandbox-Id", "mine", "E2b-Sandbox-Port", "3000", "X-Access-Token", "secret", "X-Api-Key", "secret",
		"E2b-Traffic-Access-Token", "secret", "X-User-Id", "forged", "X-Forwarded-For", "forged", "Te", "deflate, trailers;q=0.5", "Te", "trailers", "Cookie", "a=b", "Authorization", "Bearer own", "X-Own", "own")
	h := g.got.Header
	if r.status != 200 || h.Get("E2b-Sandbox-Id") != "" || h.Get("E2b-Sandbox-Port") != "" || strings.Contains(fmt.Sprint(h), "secret") || strings.Contains(fmt.Sprint(h), "forged") {
		t.Errorf("%d %v", r.status, h)
	}
	if h.Get("Te") != "trailers" || h.Get("Cookie") != "a=b" || h.Get("Authorization") != "Bearer own" || h.Get("X-Own") != "own" ||
		h.Get("X-Forwarded-Host") != "3000-mine.box.test" || h.Get("X-Forwarded-Proto") != "http" || h.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("%v", h)
	}
	if out := <-g.outcomes; out.Operation != routing.App || out.SandboxID != "mine" || out.Port != 3000 {
		t.Errorf("%+v", out)
	}
}

// Contract checklist 1: with the headers an app is reached at any host.
func TestTheHeadersOfAnotherPortReachAnApp(t *testing.T) {
	g := newTown(t)
	for _, host := range []string{"box.test", "sandbox.box.test", "127.0.0.1:3002", "gateway"} {
		for _, target := range []string{"/sandboxes", "/init", "/x"} {
			if r := g.visit(t, "GET", host, target, "E2b-Sandbox-Id", "mine", "E2b-Sandbox-Port", "3000"); r.status != 200 || g.got.URL.Path != target {
				t.Errorf("%s%s: %s", host, target, shown(r))
			}
		}
	}
}

// Contract checklist 2, 10 and 11; field report M03.
func TestThePreviewHostOfEnvdsPortHasEnvdsCallsAndNoOthers(t *testing.T) {
	g := newTown(t, func(_ *guarded, o *Options) { o.Clusters[0].Mode = routing.ModeRock })
	const host = "49983-mine.box.test"
	token := []string{"X-Access-Token", g.token("alice", mine)}
	if r := g.visit(t, "POST", host, stat, token...); r.status != 200 || g.got.Header.Get("E2b-Sandbox-Id") != "mine" || g.got.Header.Get("E2b-Sandbox-Port") != "49983" {
		t.Errorf("%s, with %v", shown(r), g.got.Header)
	}
	if r := g.visit(t, "GET", host, "/health"); r.status != 204 {
		t.Error(shown(r))
	}
	signed := sign(t, g.token("alice", mine), auth.ReadFile, "/files?path=%2Fa")
	if r := g.visit(t, "GET", host, signed); r.status != 200 || strings.Contains(g.got.RequestURI, "signature") {
		t.Errorf("%s as %s", shown(r), g.got.RequestURI)
	}
	hits := g.upstreamHits.Load()
	for target, want := range map[string]int{
		"/init": 404, "//init": 404, "/files/../init": 404, "/": 404, "/x": 404, "/sandboxes": 404, "/v2/sandboxes": 404, "/sandboxes/mine": 404, "/templates": 404,
		"/apis/envs/sandbox/v1/get_status": 404, stat: 401, "/files?path=/a": 401,
	} {
		if r := g.visit(t, "POST", host, target, "X-Api-Key", "e2b_ad"); r.status != want {
			t.Errorf("%s: %s", target, shown(r))
		}
	}
	if r := g.visit(t, "GET", "49983-hers.box.test", signed); r.status != 401 {
		t.Error(shown(r))
	}
	if g.upstreamHits.Load() != hits {
		t.Error("something got through")
	}
}

// Field report J13, contract checklist 11.
func TestASignedURLWithoutASandboxSaysWhatToDo(t *testing.T) {
	g := newTown(t)
	for _, host := range []string{"sandbox.box.test", "10.0.0.8:3002"} {
		r := g.visit(t, "GET", host, "/files?path=%2Fa&signature=v1_x")
		if code, text := r.e2b(t); code != 400 || !strings.Contains(text, "E2B_DOMAIN") || !strings.HasPrefix(text, "missing header E2b-Sandbox-Id") {
			t.Errorf("%s: %s", host, shown(r))
		}
		// Field report E02.
		if r := g.visit(t, "POST", host, "/files?path=%2Fa"); r.status != 400 || strings.Contains(r.body, "E2B_DOMAIN") || !strings.Contains(r.body, "E2b-Sandbox-Id") {
			t.Errorf("%s: %s", host, shown(r))
		}
	}
	if g.estate.lookups() != 0 {
		t.Error("something was guessed")
	}
}

// Field reports D09, E03, E07 and E08; contract checklist 4, 6 and 8.
func TestAHostThatNamesNoSandboxIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	g := newTown(t)
	for host, want := range map[string]int{
		"3000-mine.evil.test": 421, "3000-mine.box.test.evil.test": 421, "3000-mine.xbox.test": 421, "a.3000-mine.box.test": 421, "3000-mine": 421, "www.box.test": 421, "abcd-mine.box.test": 421,
		"22-mine.box.test": 400, "22555-mine.box.test": 400, "0-mine.box.test": 400, "65536-mine.box.test": 400, "3000-.box.test": 400, "3000.box.test": 400,
	} {
		for _, target := range []string{"/", "/sandboxes", stat} {
			r := g.visit(t, "GET", host, target, "E2b-Sandbox-Id", "mine", "E2b-Sandbox-Port", "3000", "Origin", "https://a.test")
			if r.status != want || r.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s%s: %s", host, target, shown(r))
			}
		}
	}
	for _, headers := range [][]string{
		{"E2b-Sandbox-Id", "hers", "E2b-Sandbox-Port", "3000"}, {"E2b-Sandbox-Id", "mine", "E2b-Sandbox-Port", "49983"}, {"E2b-Sandbox-Port", "3000", "E2b-Sandbox-Port", "3000"},
		{"E2b-Sandbox-Id", "mine,hers"}, {"E2b-Sandbox-Id", ""},
	} {
		if r := g.visit(t, "GET", "3000-mine.box.test", "/", headers...); r.status != 400 {
			t.Errorf("%q: %s", headers, shown(r))
		}
	}
	if g.estate.lookups() != 0 || g.upstreamHits.Load() != 0 {
		t.Errorf("%d lookups, %d requests", g.estate.lookups(), g.upstreamHits.Load())
	}
	if r := g.visit(t, "GET", "3000-MINE.Box.Test.:443", "/"); r.status != 200 || g.got.Host != "3000-MINE.Box.Test.:443" {
		t.Error(shown(r)) // field report E06
	}
}

// Field report E05.
func TestAnIDWithAClientIDIsTriedAsItIsFirst(t *testing.T) {
	g := newTown(t)
	if r := g.visit(t, "GET", "49983-mine-rock.box.test", "/health"); r.status != 204 {
		t.Error(shown(r))
	}
	if r := g.visit(t, "POST", "49983-mine-rock.box.test", stat, "E2b-Sandbox-Id", "mine-rock", "X-Access-Token", g.token("alice", mine)); r.status != 200 {
		t.Error(shown(r))
	}
	g.estate.fail(routing.ErrUnavailable)
	g.cache.Invalidate("mine-rock")
	if r := g.visit(t, "GET", "49983-mine-rock.box.test", "/health"); r.status != 503 || !strings.Contains(r.body, "mine-rock") {
		t.Error(shown(r))
	}
	g.estate.fail(nil)
	bobs := owned("bob")
	bobs.State = routing.StatePaused
	g.estate.put("mine-rock", bobs)
	g.cache.Invalidate("mine-rock")
	if r := g.visit(t, "GET", "3000-mine-rock.box.test", "/"); r.status != 400 || !strings.Contains(r.body, "mine-rock is paused") {
		t.Error(shown(r))
	}
	if r := g.visit(t, "GET", "3000-mine-rock-rock.box.test", "/"); r.status != 400 || !strings.Contains(r.body, "mine-rock is paused") {
		t.Error(shown(r)) // once, never twice
	}
	if r := g.visit(t, "GET", "3000-min.box.test", "/"); r.status != 502 {
		t.Error(shown(r)) // never by a prefix
	}
}

// Bob knows the URL of a port of Alice's, which has her sandbox's id in it.
func TestNobodyMakesASandboxAtTheHostsOfAnother(t *testing.T) {
	for _, domains := range [][]routing.Domain{nil, {{Name: "box.test"}}} {
		g := newRig(t, func(o *Options) { o.Domains = domains })
		for id, refused := range map[string]bool{"mine-rock": domains != nil, "mine-rock-rock": domains != nil, "rock": false, "-rock": true, "mine-rock2": false, "mine-ROCK": domains != nil, "Mine": domains != nil} {
			hits := g.upstreamHits.Load()
			r := g.send(t, "POST", "/sandboxes", unary, `{"templateID":"base","metadata":{"ap-sandbox-id":"`+id+`"}}`)
			if sent := g.upstreamHits.Load() > hits; sent == refused || refused != (r.status == 400) {
				t.Errorf("%s below %v: sent %v, %s", id, domains, sent, shown(r))
			}
		}
	}
}

// Field report H13, L03, E12: what an app answers is what its client gets.
func TestAnAppsAnswerIsPassedOnAsItIs(t *testing.T) {
	g := newTown(t)
	for _, status := range []int{200, 204, 301, 302, 304, 307, 404, 405, 409, 418, 429, 499, 500, 502, 503, 520, 599} {
		g.app(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["Set-Cookie"] = []string{"a=1; Expires=Wed, 01 Dec 2027 00:00:00 GMT", "b=2"}
			h["Retry-After"] = []string{"Wed, 01 Dec 2027 00:00:00 GMT"}
			h["Server"] = []string{"own/1.0"}
			h["Location"] = []string{"/login?next=%2F"}
			h["Content-Type"] = []string{"text/html"}
			h["Access-Control-Allow-Origin"] = []string{"https://own.test"}
			h["X-Own"] = []string{"1"}
			w.WriteHeader(status)
			if status != 204 && status != 304 {
				io.WriteString(w, `{"detail":"Not Found"} 10.0.0.5`)
			}
		})
		r := g.visit(t, "GET", "3000-mine.box.test", "/", "Origin", "https://a.test")
		h := r.header
		if r.status != status || status != 204 && status != 304 && r.body != `{"detail":"Not Found"} 10.0.0.5` || len(h["Set-Cookie"]) != 2 || h.Get("Retry-After") == "" ||
			!slices.Equal(h["Server"], []string{"own/1.0"}) || h.Get("Location") != "/login?next=%2F" || h.Get("X-Own") != "1" ||
			!slices.Equal(h["Access-Control-Allow-Origin"], []string{"https://own.test"}) || h["Access-Control-Expose-Headers"] != nil {
			t.Errorf("%d: %d %v %q", status, r.status, h, r.body)
		}
	}
	g.app(answerWith(200, "text/plain", "x"))
	if r := g.visit(t, "GET", "3000-mine.box.test", "/", "Origin", "https://a.test"); r.header["Access-Control-Allow-Origin"] != nil {
		t.Errorf("the gateway has spoken for the app: %v", r.header)
	}
}

// Field report E12.
func TestNoRedirectShowsTheInside(t *testing.T) {
	g := newTown(t)
	at := g.cluster.Proxy.Candidates("")[0].Address
	host, _, _ := net.SplitHostPort(at)
	for location, want := range map[string]string{
		"http://" + at + "/login?a=b#c":   "http://3000-mine.box.test/login?a=b#c",
		"https://u:p@" + at + "/%2Fx":     "http://3000-mine.box.test/%2Fx",
		"//" + at + "/x":                  "//3000-mine.box.test/x",
		"http://" + host + ":3000/x":      "http://3000-mine.box.test/x",
		"http://localhost:3000/x":         "http://3000-mine.box.test/x",
		"http://[::1]:3000":               "http://3000-mine.box.test",
		"http://localhost:4000/x":         "http://localhost:4000/x",
		"http://localhost/x":              "http://localhost/x",
		"/login":                          "/login",
		"../x":                            "../x",
		"https://accounts.test/?to=" + at: "https://accounts.test/?to=" + at,
		"http://3000-mine.box.test/x":     "http://3000-mine.box.test/x",
		"app://" + at:                     "app://" + at,
		"http://%zz":                      "http://%zz",
		"":                                "",
	} {
		g.app(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(302)
		})
		if got := g.visit(t, "GET", "3000-mine.box.test", "/").header.Get("Location"); got != want {
			t.Errorf("%s: %s, want %s", location, got, want)
		}
	}
}

func TestWhatAnAppStreamsComesAtOnceAndItsCutIsSeen(t *testing.T) {
	g := newTown(t)
	more := make(chan bool)
	g.app(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/connect+json")
		io.WriteString(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		if !<-more {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "data: 2\n\n")
	})
	for _, whole := range []bool{true, false} {
		c := g.dial(t)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: 3000-mine.box.test\r\nContent-Type: application/connect+json\r\nContent-Length: 0\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp.Body, len("data: 1\n\n")); got != "data: 1\n\n" {
			t.Fatalf("%q", got)
		}
		more <- whole
		rest, err := io.ReadAll(resp.Body)
		if whole != (err == nil) || whole && string(rest) != "data: 2\n\n" || !whole && len(rest) != 0 {
			t.Errorf("%q, %v", rest, err)
		}
	}
}

// Contract checklist 69; field report D06.
func TestAFailureOnTheWayToAnAppIsToldAsItsClientReadsIt(t *testing.T) {
	g := newTown(t)
	browser := []string{"User-Agent", "Mozilla/5.0", "Accept", "text/html"}
	for name, tc := range map[string]struct {
		headers []string
		want    string // content type
	}{
		"navigation":         {append(browser, "Sec-Fetch-Mode", "navigate"), "text/html; charset=utf-8"},
		"a script":           {append(browser, "Sec-Fetch-Mode", "cors"), "application/json; charset=utf-8"},
		"curl":               {nil, "application/json; charset=utf-8"},
		"Connect":            {[]string{"Content-Type", "application/connect+json"}, "application/json; charset=utf-8"},
		"gRPC":               {[]string{"Content-Type", "application/grpc+proto"}, "application/grpc+proto"},
		"a path like envd's": {[]string{"Content-Type", "application/json"}, "application/json; charset=utf-8"},
	} {
		for host, want := range map[string]struct {
			status int
			grpc   string
		}{"3000-nowhere.box.test": {502, "14"}, "4000-mine.box.test": {502, "10"}, "3000-secluded.box.test": {403, "7"}} {
			r := g.visit(t, "GET", host, start, tc.headers...)
			status := want.status
			if name == "gRPC" {
				status = 200
			}
			if r.status != status || r.header.Get("Content-Type") != tc.want || name == "gRPC" && r.header.Get("Grpc-Status") != want.grpc {
				t.Errorf("%s at %s: %d %v %q", name, host, r.status, r.header, r.body)
			}
		}
	}
	if r := g.visit(t, "GET", "4000-mine.box.test", "/"); !strings.Contains(r.body, "port is not open") || !strings.Contains(r.body, `"port":4000`) {
		t.Error(shown(r))
	}
}

// opening is an upstream at which nobody listens for a while.
type opening struct {
	Upstream
	refusals, tries atomic.Int32
	err             error
}

func (o *opening) RoundTrip(r *http.Request) (*http.Response, error) {
	if o.tries.Add(1) <= o.refusals.Load() {
		r.Body.Close()
		return nil, o.err
	}
	return o.Upstream.RoundTrip(r)
}

// Field report C10.
func TestAnAppMayTakeAMomentToListen(t *testing.T) {
	up := &opening{err: &upstream.DialError{Err: syscall.ECONNREFUSED}}
	g := newTown(t, func(_ *guarded, o *Options) { up.Upstream, o.Upstream = o.Upstream, up })
	g.app(answerWith(200, "text/plain", "x"))
	for _, tc := range []struct {
		name, host string
		err        error
		refusals   int32
		status     int
		tries      int32
	}{
		{"an app", "3000-mine.box.test", &upstream.DialError{Err: syscall.ECONNREFUSED}, 4, 200, 5},
		{"an app that never listens", "3000-mine.box.test", &upstream.DialError{Err: syscall.ECONNREFUSED}, 100, 502, 5},
		{"a machine that is not there", "3000-mine.box.test", &upstream.DialError{Err: syscall.EHOSTUNREACH}, 100, 503, 1},
		{"a connection that was lost", "3000-mine.box.test", syscall.ECONNREFUSED, 100, 500, 1},
		{"envd", "49983-mine.box.test", &upstream.DialError{Err: syscall.ECONNREFUSED}, 4, 503, 1},
	} {
		up.err = tc.err
		up.refusals.Store(tc.refusals)
		up.tries.Store(0)
		if r := g.visit(t, "GET", tc.host, "/health"); r.status != tc.status || up.tries.Load() != tc.tries {
			t.Errorf("%s: %s after %d tries", tc.name, shown(r), up.tries.Load())
		}
	}
	// Whoever leaves is not waited for.
	up.err = &upstream.DialError{Err: errors.Join(syscall.ECONNREFUSED)}
	up.refusals.Store(1 << 30)
	up.tries.Store(0)
	for len(g.outcomes) > 0 {
		<-g.outcomes
	}
	c := g.dial(t)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: 3000-mine.box.test\r\n\r\n")
	deadline := time.Now().Add(10 * time.Second)
	for up.tries.Load() == 0 && time.Now().Before(deadline) {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, _ = c.Read(make([]byte, 1))
	}
	c.Close()
	if out := <-g.outcomes; out.End != cause.ClientGone {
		t.Errorf("%v after %d tries", out.End, up.tries.Load())
	}
}

// Field reports K08 and L04, contract checklist 13.
func TestASocketToAnAppNeedsWhatItsOtherCallsNeed(t *testing.T) {
	g := newTown(t)
	g.socket(t, func(r *http.Request, c *net.TCPConn, br *bufio.Reader) {
		if r.Header.Get("Origin") == "https://a.example" && r.RequestURI == "/ws?a=%2B" && r.Header.Get("E2b-Traffic-Access-Token") == "" {
			io.WriteString(c, switched+text("hello"))
		}
		io.Copy(c, br)
	})
	for _, tc := range []struct {
		host, headers string
		status        int
	}{
		{"3000-mine.box.test", "", 101},
		{"3000-secluded.box.test", "", 403},
		{"3000-secluded.box.test", "e2b-traffic-access-token: " + g.traffic(mine) + "\r\n", 403},
		{"3000-secluded.box.test", "e2b-traffic-access-token: " + g.traffic(secluded) + "\r\n", 101},
		{"49983-mine.box.test", "", 404},
	} {
		c := g.dial(t)
		fmt.Fprintf(c, "GET /ws?a=%%2B HTTP/1.1\r\nHost: %s\r\nOrigin: https://a.example\r\n%s%sSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", tc.host, upgrade, tc.headers)
		br := bufio.NewReader(c)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != tc.status {
			t.Errorf("%s %s: %v, %v", tc.host, tc.headers, resp, err)
			continue
		}
		if json := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"); json != (tc.status != 101) || resp.Header.Get("Location") != "" {
			t.Errorf("%s %s: %v", tc.host, tc.headers, resp.Header)
		}
		if tc.status == 101 {
			if got := read(t, br, len(text("hello"))); got != text("hello") {
				t.Errorf("%q", got)
			}
		}
	}
}

func TestOnlyTheCallsOfTheDataPlaneAreTakenForSuch(t *testing.T) {
	g := newTown(t)
	for _, tc := range []struct {
		host, target string
		planes       Planes
		want         bool
	}{
		{"3000-mine.box.test", "/anything", Both, true}, {"3000-mine.box.test", "/anything", Data, true}, {"3000-mine.box.test", "/anything", Control, false},
		{"49983-mine.box.test", "/health", Both, true}, {"49983-mine.box.test", "/anything", Both, false}, {"box.test", "/sandboxes", Both, false},
		{"box.test", stat, Both, true}, {"3000-mine.evil.test", "/health", Both, false},
	} {
		r, _ := http.NewRequest("GET", tc.target, nil)
		r.Host = tc.host
		host, err := g.gateway.hosts.Read(r.Host)
		if got := err == nil && operationOf(r, host, tc.planes).Plane == routing.DataPlane; got != tc.want {
			t.Errorf("%s%s: %v", tc.host, tc.target, got)
		}
	}
}
