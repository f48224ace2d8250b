package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

var madeHere = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Whoever could choose the name of a request could give it another's.
func TestOnlyATrustedProxyNamesARequest(t *testing.T) {
	d := newDesk(t)
	for name, tc := range map[string]struct {
		peer Peer
		sent []string
		kept bool
	}{
		"a stranger":            {Stranger, []string{"mine"}, false},
		"a proxy":               {TrustedProxy, []string{"7f3c-2_a.b"}, true},
		"a proxy that says two": {TrustedProxy, []string{"a", "b"}, false},
		"forged lines":          {TrustedProxy, []string{"a b"}, false},
		"too long":              {TrustedProxy, []string{strings.Repeat("a", 65)}, false},
		"empty":                 {TrustedProxy, []string{""}, false},
		"none":                  {TrustedProxy, nil, false},
	} {
		for _, trail := range []*Trail{nil, new(Trail)} {
			r := httptest.NewRequest("GET", "/sandboxes", nil) // no key: refused
			if tc.sent != nil {
				r.Header[HeaderRequestID] = tc.sent
			}
			w := httptest.NewRecorder()
			out := Outcome{Trail: trail}
			d.gateway.Serve(w, r, Both, tc.peer, &out)
			told := w.Header()[HeaderRequestID]
			if len(told) != 1 || out.Trail == nil || told[0] != out.Trail.RequestID || (told[0] != "" && tc.sent != nil && told[0] == tc.sent[0]) != tc.kept ||
				!tc.kept && !madeHere.MatchString(told[0]) {
				t.Errorf("%s: %q is told %q", name, tc.sent, told)
			}
		}
	}
}

func TestARequestWithoutATrailGetsOneOnlyWhenItFails(t *testing.T) {
	d := newDesk(t)
	for key, fails := range map[string]bool{alice: false, stranger: true} {
		r := httptest.NewRequest("GET", "/sandboxes/alices", nil)
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		var out Outcome
		d.gateway.Serve(w, r, Both, Stranger, &out)
		if (out.End != cause.OK) != fails || (out.Trail != nil) != fails || (w.Header().Get(HeaderRequestID) != "") != fails {
			t.Errorf("%v: %+v, %v", out.End, out.Trail, w.Header())
		}
		if _, timed := out.Trail.Times(); timed {
			t.Error("somebody has looked at a clock")
		}
		if fails && out.Trail.TraceID != "" {
			t.Errorf("nobody was told of %q", out.Trail.TraceID)
		}
	}
}

// The log here and ROCK's have one name for it, on both planes.
func TestROCKIsToldWhatTheLogSays(t *testing.T) {
	for _, sent := range []string{"", parent} {
		var got [2]string
		g := newRig(t)
		keep := func(i int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				got[i] = r.Header.Get(headerEagleEye)
				w.Header().Set(HeaderRequestID, "another") // as who has seen that of somebody else might
				w.WriteHeader(http.StatusNoContent)
			}
		}
		g.proxy, g.admin = keep(0), keep(1)
		for i, target := range []string{"/health", "/sandboxes/sbx-1"} {
			r := httptest.NewRequest("GET", target, nil)
			if i == 1 {
				r.Method = "DELETE"
			}
			r.Header.Set("E2b-Sandbox-Id", "sbx-1")
			r.Header.Set("E2b-Sandbox-Port", "49983")
			if sent != "" {
				r.Header.Set(headerTraceparent, sent)
			}
			trail := new(Trail)
			w := httptest.NewRecorder()
			out := Outcome{Trail: trail}
			g.gateway.Serve(w, r, Both, Stranger, &out)
			want := trail.RequestID
			if sent != "" {
				want = w3cID
			}
			if out.Trail != trail || got[i] != want || trail.TraceID != want || w.Header().Get(HeaderRequestID) != trail.RequestID || out.Status != 204 {
				t.Errorf("%s: ROCK was told %q, the log says %+v, the answer %v, status %d", target, got[i], trail, w.Header(), out.Status)
			}
		}
	}
}

// slowUpstream takes its time to connect and to answer.
type slowUpstream struct{ connect, answer time.Duration }

func (s slowUpstream) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.After(s.connect + s.answer)
	trailOf(r.Context()).connect.Add(int64(s.connect))
	return &http.Response{StatusCode: 204, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody}, nil
}

func TestATrailSaysWhereTheTimeWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &estate{routes: map[string]routing.Route{mine: owned("alice")}, slow: 30 * time.Millisecond}
		cache := routing.NewCache(e, routing.CacheOptions{})
		proxy, err := routing.ParseEndpoint("http://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		roles := routing.NewBalancer([]*routing.Endpoint{proxy}, nil)
		cluster := &routing.Cluster{Name: "test", Mode: routing.ModeRock, Proxy: roles, Admin: roles}
		g := New(Options{Routes: cache, Upstream: slowUpstream{5 * time.Millisecond, 70 * time.Millisecond}, Clusters: []*routing.Cluster{cluster}, Activity: -1})
		defer func() { g.Close(); cache.Close() }()
		for _, tc := range []struct {
			method, target string
			want           Times
		}{
			{"GET", "/health", Times{Lookup: 30 * time.Millisecond, Connect: 5 * time.Millisecond, FirstByte: 70 * time.Millisecond}},
			{"GET", "/health", Times{Connect: 5 * time.Millisecond, FirstByte: 70 * time.Millisecond}},
			{"DELETE", "/sandboxes/" + mine, Times{Connect: 5 * time.Millisecond, FirstByte: 70 * time.Millisecond}},
		} {
			r := httptest.NewRequest(tc.method, tc.target, nil)
			r.Header.Set("E2b-Sandbox-Id", mine)
			r.Header.Set("E2b-Sandbox-Port", "49983")
			trail := new(Trail)
			g.Serve(httptest.NewRecorder(), r, Both, Stranger, &Outcome{Trail: trail})
			if got, ok := trail.Times(); !ok || got != tc.want {
				t.Errorf("%s: %+v, want %+v", tc.target, got, tc.want)
			}
		}
	})
}

func TestTheWaitForASandboxIsOnItsTrail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		n.status = func() (int, string) { return 200, pending }
		after(3*time.Second, func() { n.registry.say(routing.StateRunning, nil) })
		r := httptest.NewRequest("POST", stat, strings.NewReader("{}"))
		r.Header = http.Header{"Content-Type": {unary}, "E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
		trail, begun := new(Trail), time.Now()
		out := Outcome{Trail: trail}
		n.gateway.Serve(httptest.NewRecorder(), r, Both, Stranger, &out)
		if got, _ := trail.Times(); out.End != cause.OK || got != (Times{Ready: time.Since(begun)}) || got.Ready < 3*time.Second {
			t.Errorf("%v: %+v of %v", out.End, got, time.Since(begun))
		}
	})
}

func TestNoTrailAddsNothingToAContext(t *testing.T) {
	if ctx := context.Background(); withTrail(ctx, nil) != ctx {
		t.Error("it is another context")
	}
}
