package handlers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Field report D01.
func TestConnectHandsOutWhatACreateDoes(t *testing.T) {
	w := newWard(t, func(o *Options) { o.Domains = []routing.Domain{{Name: "sandbox.example.com"}} })
	token := `"envdAccessToken":"` + w.tokens.Mint(auth.AccessToken, "alices", "alice") + `"`
	traffic := `"trafficAccessToken":"` + w.tokens.Mint(auth.TrafficToken, "alices", "alice") + `"`
	const head, domain = `{"sandboxID":"alices","templateID":"python:3.11","clientID":"rock","envdVersion":"0.3.0",`, `"domain":"sandbox.example.com"`
	for name, tc := range map[string]struct {
		key, path, notes string
		public           bool
		want             string
	}{
		"public":              {alice, "/sandboxes/alices/connect", "", true, head + token + `,` + domain + `}`},
		"v2, another key":     {alicesOther, "/v2/sandboxes/alices/connect", "", true, head + token + `,` + domain + `}`},
		"private":             {alice, "/sandboxes/alices/connect", `,"e2b-gateway/traffic":"private"`, true, head + token + `,` + traffic + `,` + domain + `}`},
		"the operator's wish": {alice, "/sandboxes/alices/connect", "", false, head + token + `,` + traffic + `,` + domain + `}`},
		"scope control":       {clerk, "/sandboxes/alices/connect", "", true, head + domain + `}`},
		"an admin":            {root, "/sandboxes/alices/connect", "", true, head + token + `,` + domain + `}`},
	} {
		w.access.PublicTraffic, w.notes = tc.public, tc.notes
		r := w.ask(tc.key, "POST", tc.path, `{}`)
		if r.status != 200 || r.body != tc.want || r.header.Get("Content-Type") != unary || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v\n%s\n%s", name, r.status, r.header, r.body, tc.want)
		}
	}
	if r := w.ask(bob, "POST", "/sandboxes/alices/connect", `{}`); r.status != 404 {
		t.Errorf("bob: %d %s", r.status, r.body)
	}
}

// With keys off the caller's own key is the token, as in ROCK's answer to a create.
func TestWithoutKeysConnectAnswersAsRocksCreateDoes(t *testing.T) {
	w := newWard(t, func(o *Options) { o.Access = nil })
	r := w.ask(alice, "POST", "/sandboxes/alices/connect", ``)
	if want := `{"sandboxID":"alices","templateID":"python:3.11","clientID":"rock","envdVersion":"0.3.0","envdAccessToken":"` + alice + `"}`; r.status != 200 || r.body != want {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := w.ask("", "POST", "/sandboxes/none/connect", ``); r.status != 404 || !strings.Contains(r.body, "none was not found") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// Field report D04: minutes are rounded up, and connect never shortens a life.
func TestConnectAndRefreshProlongALifeAndNeverShortenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			call, body string
			want       time.Duration
		}{
			{"connect", `{"timeout":60}`, 10 * time.Minute},
			{"connect", `{"timeout":0}`, 10 * time.Minute},
			{"connect", `{"timeout":600}`, 10 * time.Minute},
			{"connect", `{"timeout":601}`, 11 * time.Minute},
			{"connect", `{"timeout":3600,"memory":false}`, time.Hour},
			{"connect", `{}`, 10 * time.Minute},
			{"connect", ` `, 10 * time.Minute},
			{"connect", `{"timeout":null}`, 10 * time.Minute},
			{"connect", `{"timeout":2147483647}`, 35791395 * time.Minute},
			{"resume", `{"timeout":1200,"autoPause":false}`, 20 * time.Minute},
			{"refreshes", `{"duration":1200}`, 20 * time.Minute},
			{"refreshes", `{"duration":60}`, 10 * time.Minute},
			{"refreshes", ``, 10 * time.Minute},
		} {
			w := newWard(t)
			status := map[string]int{"connect": 200, "resume": 201, "refreshes": 204}[tc.call]
			if r := w.life(tc.call, tc.body); r.status != status || w.left() != tc.want || (r.body == "") != (status == 204) {
				t.Errorf("%s %s: %d %s, %v left", tc.call, tc.body, r.status, r.body, w.left())
			}
			if tc.want == 10*time.Minute && w.asked() != "" {
				t.Errorf("%s %s: ROCK was told to change something", tc.call, tc.body)
			}
		}
		w := newWard(t)
		w.end = time.Now().Add(time.Minute)
		if r := w.life("connect", `{}`); r.status != 200 || w.left() != 5*time.Minute {
			t.Errorf("the default: %d, %v left", r.status, w.left())
		}
	})
}

func TestABadNumberOfSecondsIsRefusedByName(t *testing.T) {
	w := newWard(t)
	w.become("stopped")
	for _, value := range []string{`"90"`, `-1`, `1.5`, `1e2`, `2147483648`, `true`, `[]`} {
		for call, field := range map[string]string{"connect": "timeout", "resume": "timeout", "refreshes": "duration"} {
			r := w.life(call, `{"`+field+`":`+value+`}`)
			if code, message := r.e2b(t); code != 400 || !strings.HasPrefix(message, field+" must be a whole number of seconds") || w.asked() != "" {
				t.Errorf("%s %s: %d %s", call, value, r.status, r.body)
			}
		}
	}
	if r := w.life("connect", `[]`); r.status != 400 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestConnectStartsAPausedSandboxAgain(t *testing.T) {
	for _, call := range []string{"connect", "resume"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t)
			w.become("stopped")
			w.starts = 20 * time.Second
			if route, _, err := w.gateway.opt.Routes.Lookup(t.Context(), "alices"); err != nil || route.State != routing.StatePaused {
				t.Fatalf("%+v, %v", route, err)
			}
			begun := time.Now()
			r := w.life(call, `{"timeout":120}`)
			if took := time.Since(begun); r.status != 201 || took < 20*time.Second || took > 22*time.Second || w.left() != 2*time.Minute {
				t.Fatalf("%d %s after %v, %v left", r.status, r.body, took, w.left())
			}
			if asked := w.asked(); asked != `restart, timeout {"timeout":120}` {
				t.Errorf("ROCK was asked %q", asked)
			}
			// Field report F11: nobody is told of the life before.
			if route, _, err := w.gateway.opt.Routes.Lookup(t.Context(), "alices"); err != nil || route.State != routing.StateRunning || route.Lifecycle != "life1" {
				t.Errorf("%+v, %v", route, err)
			}
		})
	}
}

func TestConnectsAtATimeRestartOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.become("stopped")
		w.starts = time.Second
		replies := make(chan reply)
		for i := range 5 {
			go func() { replies <- w.life("connect", fmt.Sprintf(`{"timeout":%d}`, 60*(i+1))) }()
		}
		for range 5 {
			if r := <-replies; r.status != 201 {
				t.Errorf("%d %s", r.status, r.body)
			}
		}
		if n := strings.Count(w.asked(), "restart"); n != 1 {
			t.Errorf("%d restarts", n)
		}
		if w.left() < 5*time.Minute {
			t.Errorf("%v left of the five minutes that one has asked for", w.left())
		}
		if r := w.life("connect", `{}`); r.status != 200 {
			t.Errorf("once it runs: %d %s", r.status, r.body)
		}
	})
}

// Alice waits for her sandbox, which is ended and made anew under its id by Bob.
func TestConnectDoesNotWaitForASandboxThatBecomesAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.become("pending")
		w.runsAt, w.end = time.Now().Add(time.Hour), time.Now().Add(time.Minute)
		replied := make(chan reply)
		go func() { replied <- w.life("connect", `{"timeout":3600}`) }()
		synctest.Wait()
		w.become("running")
		w.records.put(&routing.Route{SandboxID: "alices", State: routing.StateRunning, Lifecycle: "life9", Owner: noted("bob", bob)})
		if r := <-replied; r.status != 404 || w.asked() != "" {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// ROCK's call sets an end, and does not know which of two is the later one.
func TestConnectsAtATimeShortenNoLife(t *testing.T) {
	for _, slow := range []string{`{"timeout":600}`, `{"timeout":3600}`} {
		for _, state := range []string{"running", "stopped"} {
			for _, first := range []int{600, 3600} {
				synctest.Test(t, func(t *testing.T) {
					w := newWard(t)
					w.become(state)
					w.end = time.Now().Add(time.Minute)
					w.instead["/timeout"] = func(rw http.ResponseWriter, r *http.Request) {
						b, _ := r.GetBody()
						body, _ := io.ReadAll(b)
						if string(body) == slow {
							time.Sleep(5 * time.Second)
						}
						var asked struct{ Timeout int64 }
						if err := json.Unmarshal(body, &asked); err != nil {
							t.Error(err)
						}
						w.mu.Lock()
						w.end = time.Now().Add(time.Duration((asked.Timeout+59)/60) * time.Minute)
						w.mu.Unlock()
						rw.WriteHeader(204)
					}
					replies := make(chan reply)
					for _, seconds := range []int{first, 600 + 3600 - first} {
						go func() { replies <- w.life("connect", fmt.Sprintf(`{"timeout":%d}`, seconds)) }()
						synctest.Wait()
					}
					for range 2 {
						if r := <-replies; r.status >= 300 {
							t.Errorf("%d %s", r.status, r.body)
						}
					}
					if w.left() < 59*time.Minute {
						t.Errorf("%s, slow: %s, first: %d: %v left", state, slow, first, w.left())
					}
				})
			}
		}
	}
}

// What ROCK, or the way to it, can do to a restart; 503 means that nothing was done.
func TestWhatBecomesOfARestartIsToldAsItIs(t *testing.T) {
	rockSays := func(why string, code int) http.HandlerFunc {
		return answerWith(200, unary, fmt.Sprintf(`{"status":"Failed","error":"%s","result":{"code":%d}}`, why, code))
	}
	for name, tc := range map[string]struct {
		instead http.HandlerFunc
		phases  string
		starts  time.Duration
		status  int
		text    string
	}{
		"not dialled":            {refuseDial, "", 0, 503, "nothing was done"},
		"lost":                   {lose, "", 0, 500, "outcome of this call is unknown"},
		"ROCK failed":            {rockSays("ray actor 10.0.0.7 died", 5000), "", 0, 500, "outcome of this call is unknown"},
		"a traceback":            {answerWith(500, "text/plain", "Traceback"), "", 0, 500, "outcome of this call is unknown"},
		"a ROCK without restart": {answerWith(404, unary, `{"detail":"Not Found"}`), "", 0, 501, "not offered"},
		"deleted":                {rockSays("Sandbox alices cannot be restarted: current state is 'deleted'", 4000), "", 0, 404, "not found"},
		"being archived":         {rockSays("Sandbox alices cannot be restarted: current state is 'archiving'", 4000), "", 0, 409, "cannot be resumed in the state"},
		"archive not set up":     {rockSays("archive not configured: missing storage credentials", 4000), "", 0, 409, "cannot be resumed in the state"},
		"the start fails":        {nil, `"image_pull":{"status":"failed","message":"10.0.0.7"}`, 0, 500, "failed to start again"},
		"the start times out":    {nil, `"docker_run":{"status":"timeout"}`, 0, 500, "failed to start again"},
		"it takes too long":      {nil, "", time.Hour, 504, "connect again in a moment"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t)
			w.become("stopped")
			w.phases, w.starts = tc.phases, tc.starts
			if tc.instead != nil {
				w.instead["/restart"] = tc.instead
			}
			r := w.life("connect", `{}`)
			if code, message := r.e2b(t); code != tc.status || !strings.Contains(message, tc.text) || strings.Contains(message, "10.0.0.7") {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
			if strings.Contains(w.asked(), "timeout") {
				t.Errorf("%s: its time was set", name)
			}
		})
	}
}

func TestARestartThatSomebodyElseHasBegunIsWaitedFor(t *testing.T) {
	for _, state := range []string{"running", "pending"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t)
			w.become("stopped")
			w.instead["/restart"] = func(rw http.ResponseWriter, r *http.Request) {
				w.become(state)
				answerWith(200, unary, `{"status":"Failed","error":"Sandbox alices cannot be restarted: current state is '`+state+`'","result":{"code":4000}}`)(rw, r)
			}
			if r := w.life("connect", `{}`); r.status != 201 {
				t.Errorf("%s: %d %s", state, r.status, r.body)
			}
		})
	}
}

// A call after a restart must not promise that nothing was done.
func TestAfterARestartNoFailureIs503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.become("stopped")
		w.instead["/timeout"] = refuseDial
		if r := w.life("connect", `{}`); r.status != 500 {
			t.Errorf("%d %s", r.status, r.body)
		}
		w.become("running")
		if r := w.life("connect", `{"timeout":86400}`); r.status != 503 {
			t.Errorf("without one: %d %s", r.status, r.body)
		}
	})
}

// Field report D11.
func TestConnectTellsHereGoneAndDontKnowApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, key := range []string{alice, root} {
			w := newWard(t)
			for state, want := range map[routing.State]int{
				routing.StateDeleted: 404, routing.StateExpired: 404, routing.StateFailed: 404, routing.StateStopped: 503, routing.StateUnknown: 503,
			} {
				w.records.set("alices", state, noted("alice", alice))
				w.gateway.opt.Routes.Invalidate("alices")
				if r := w.ask(key, "POST", "/sandboxes/alices/connect", `{}`); r.status != want {
					t.Errorf("%v as %s: %d %s", state, key, r.status, r.body)
				}
			}
			w.records.forget("alices")
			if r := w.ask(key, "POST", "/sandboxes/alices/connect", `{}`); r.status != 404 {
				t.Errorf("no record, as %s: %d", key, r.status)
			}
			w.records.fail(errDown)
			w.gateway.opt.Routes.Invalidate("alices")
			r := w.ask(key, "POST", "/sandboxes/alices/connect", `{}`)
			if r.status != 503 || r.header.Get("Retry-After") == "" || w.asked() != "" {
				t.Errorf("registry down, as %s: %d %s", key, r.status, r.body)
			}
		}
	})
}

func TestTheLogSaysWhyNobodyKnowsWhatBecameOfASandbox(t *testing.T) {
	for key, want := range map[string]cause.Cause{alice: cause.RegistryUnavailable, root: cause.SandboxStopped} { // whose it was is not known
		w := newWard(t)
		w.records.put(&routing.Route{SandboxID: "alices", State: routing.StateStopped, Problem: "the admin role is silent"})
		r := httptest.NewRequest("POST", "/sandboxes/alices/connect", strings.NewReader(`{}`))
		r.Header.Set("X-Api-Key", key)
		var out Outcome
		w.gateway.Serve(httptest.NewRecorder(), r, Both, Stranger, &out)
		if out.End != want || out.Err == nil || out.Err.Error() != "the admin role is silent" {
			t.Errorf("%s: %v: %v", key, out.End, out.Err)
		}
	}
}

// Field report D11: no 200 for what cannot be used.
func TestResumingIsNotOfferedWithoutTheOption(t *testing.T) {
	w := newWard(t, func(o *Options) { o.Clusters[0].Restarts = false })
	w.become("stopped")
	r := w.life("connect", `{}`)
	if code, message := r.e2b(t); code != 501 || !strings.Contains(message, "resuming is not offered by this deployment; create another one") || w.asked() != "" {
		t.Errorf("%d %s", r.status, r.body)
	}
	w.become("running")
	if r := w.life("connect", `{}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A registry that asks the admin role calls a sandbox running as soon as it has been
// started, and ROCK refuses its timeout until it runs.
func TestConnectWaitsForASandboxThatOnlySeemsToRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.state, w.runsAt = "pending", time.Now().Add(5*time.Second)
		begun := time.Now()
		if r := w.life("connect", `{"timeout":3600}`); r.status != 200 || time.Since(begun) < 5*time.Second || w.left() != time.Hour {
			t.Errorf("%d %s, %v left", r.status, r.body, w.left())
		}
		w.instead["/timeout"] = answerWith(404, unary, `{"code":404,"message":"sandbox alices not found"}`)
		if r := w.life("connect", `{"timeout":7200}`); r.status != 503 {
			t.Errorf("ROCK goes on to contradict the registry: %d %s", r.status, r.body)
		}
	})
}

func TestConnectWaitsForASandboxThatIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.runsAt = time.Now().Add(5 * time.Second)
		w.become("pending")
		begun := time.Now()
		if r := w.life("connect", `{"timeout":3600}`); r.status != 200 || time.Since(begun) < 5*time.Second || w.left() != time.Hour {
			t.Errorf("%d %s after %v, %v left", r.status, r.body, time.Since(begun), w.left())
		}
	})
}

// Field report F11: the sandbox expires between the question and the answer.
func TestConnectToASandboxThatIsStoppedJustNowStartsItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.end = time.Now()
		w.instead["/timeout"] = func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			delete(w.instead, "/timeout")
			w.mu.Unlock()
			w.become("stopped")
			answerWith(404, unary, `{"code":404,"message":"sandbox alices not found"}`)(rw, r)
		}
		if r := w.life("connect", `{"timeout":60}`); r.status != 201 || w.left() != time.Minute {
			t.Errorf("%d %s, %v left", r.status, r.body, w.left())
		}
	})
}

func TestARestartCountsAsACreateAndConnectAsARequest(t *testing.T) {
	limits := limit.New(auth.Limits{Creates: 1, Requests: 100}, auth.Limits{})
	w := newWard(t, func(o *Options) { o.Limits = limits })
	for i, want := range []int{201, 429} {
		w.become("stopped")
		w.gateway.opt.Routes.Invalidate("alices")
		if r := w.life("connect", `{}`); r.status != want {
			t.Errorf("%d: %d %s", i, r.status, r.body)
		}
	}
	w.become("running")
	if r := w.life("connect", `{}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestRefreshNeedsASandboxThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for state, want := range map[string]int{"stopped": 409, "pending": 503, "deleted": 404} {
			w := newWard(t)
			w.become(state)
			r := w.life("refreshes", `{"duration":60}`)
			var e struct{ Code int }
			if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.status != want || e.Code != want {
				t.Errorf("%s: %d %s", state, r.status, r.body)
			}
		}
	})
}

func FuzzSeconds(f *testing.F) {
	for _, body := range []string{``, `{}`, `{"timeout":300}`, `{"timeout":"300"}`, `{"t\u0069meout":1}`, `{"timeout":1,"timeout":2}`, `[]`} {
		f.Add([]byte(body))
	}
	g := New(Options{Routes: routing.NewCache(&records{}, routing.CacheOptions{})})
	f.Cleanup(g.Close)
	f.Fuzz(func(t *testing.T, body []byte) {
		c := &lifeCall{g: g, body: body}
		n, refused := c.seconds("timeout")
		if refused == nil && (n < 0 || n > 1<<31-1) {
			t.Fatalf("%q is %d", body, n)
		}
		if refused != nil && refused.failed.Cause.Status() != 400 {
			t.Fatalf("%q is %v", body, refused.failed)
		}
	})
}
