package handlers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// held is a body of which the first byte comes at once and the rest after
// something has happened.
type held struct {
	text string
	wait func()
	n    int
}

func (h *held) Read(p []byte) (int, error) {
	switch h.n++; h.n {
	case 1:
		return copy(p, h.text[:1]), nil
	case 2:
		h.wait()
		return copy(p, h.text[1:]), nil
	default:
		return 0, io.EOF
	}
}

// A key that is taken back, and a sandbox that becomes another's, while a body is
// held back.
func TestABodyThatIsHeldBackOutlivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ask := func(method, path, body string, meanwhile func()) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, &held{text: body, wait: meanwhile})
			r.Header.Set("X-API-Key", alice)
			w := httptest.NewRecorder()
			d.gateway.ServeHTTP(w, r)
			return w
		}
		if w := ask("POST", "/sandboxes/alices/timeout", `{"timeout":5}`, func() {
			d.records.set("alices", routing.StateRunning, noted("bob", bob))
			time.Sleep(time.Minute) // the route's entry is old by then
		}); w.Code != 404 || len(d.took()) != 0 {
			t.Errorf("the sandbox is bob's by now: %d %s", w.Code, w.Body)
		}
		if w := ask("POST", "/sandboxes", `{"templateID":"base"}`, func() {
			delete(d.keys.keys, auth.DigestOf(alice))
			time.Sleep(time.Minute)
		}); w.Code != 401 || len(d.took()) != 0 {
			t.Errorf("the key was taken back: %d %s", w.Code, w.Body)
		}
		if w := ask("POST", "/sandboxes", `{"templateID":"base"}`, func() { time.Sleep(time.Hour) }); w.Code != 401 {
			t.Errorf("%d", w.Code)
		}
	})
}

func TestABodyOfTheControlPlaneHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		r := httptest.NewRequest("POST", "/sandboxes", &held{text: `{"templateID":"base"}`, wait: func() { time.Sleep(time.Hour) }})
		r.Header.Set("X-API-Key", alice)
		w := httptest.NewRecorder()
		d.gateway.ServeHTTP(w, r)
		if w.Code != 400 || len(d.took()) != 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestASmallBodyThatIsHeldBackReachesNobodyElsesSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &estate{routes: map[string]routing.Route{mine: owned("alice")}}
		cache := routing.NewCache(e, routing.CacheOptions{})
		defer cache.Close()
		reached := false
		access := &Access{Keys: ring(nil), Tokens: tokens(t, "new")}
		g := New(Options{Routes: cache, Access: access, Clusters: []*routing.Cluster{newDesk(t).gateway.opt.Clusters[0]},
			Upstream: roundTrip(func(*http.Request) (*http.Response, error) { reached = true; return nil, io.ErrUnexpectedEOF })})
		defer g.Close()
		r := httptest.NewRequest("POST", stat, &held{text: `{"path":"/"}`, wait: func() {
			e.put(mine, owned("bob"))
			time.Sleep(time.Minute)
		}})
		r.ContentLength = int64(len(`{"path":"/"}`))
		for name, value := range map[string]string{"Content-Type": unary, "E2b-Sandbox-Id": mine, "E2b-Sandbox-Port": "49983",
			"X-Access-Token": access.Tokens.Mint(auth.AccessToken, mine, "alice")} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != 502 || reached || !strings.Contains(w.Body.String(), "was not found") {
			t.Errorf("%d %s, reached: %t", w.Code, w.Body, reached)
		}
	})
}
