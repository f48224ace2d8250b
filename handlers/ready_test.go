package handlers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// nursery is a gateway in front of a ROCK whose sandbox "a" is starting. The clock is
// the bubble's.
type nursery struct {
	gateway  *Gateway
	registry *registry
	cluster  *routing.Cluster
	asked    atomic.Int32 // for the status
	mu       sync.Mutex
	status   func() (int, string) // what ROCK answers to that
	sent     chan *http.Request   // what went on to the sandbox
}

func newNursery(t *testing.T, change ...func(*Options)) *nursery {
	n := &nursery{registry: &registry{push: make(chan string)}, sent: make(chan *http.Request, 1000)}
	n.registry.say(routing.StateStarting, nil)
	n.status = func() (int, string) { return 200, pending }
	e, err := routing.ParseEndpoint("http://rock:8080")
	if err != nil {
		t.Fatal(err)
	}
	role := routing.NewBalancer([]*routing.Endpoint{e}, nil)
	n.cluster = &routing.Cluster{Name: "test", Mode: routing.ModeRock, Admin: role, Proxy: role}
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: n.registry}}), routing.CacheOptions{})
	opt := Options{Clusters: []*routing.Cluster{n.cluster}, Routes: cache, Upstream: n, Deaths: NewDeaths()}
	for _, c := range change {
		c(&opt)
	}
	n.gateway = New(opt)
	ctx, stop := context.WithCancel(t.Context())
	go cache.Run(ctx)
	t.Cleanup(func() {
		n.gateway.Close()
		stop()
		cache.Close()
		role.Close()
	})
	return n
}

const (
	pending   = `{"status":"Success","result":{"sandbox_id":"a","state":"pending","status":{"image_pull":{"status":"running","message":""}}}}`
	failedOne = `{"status":"Success","result":{"sandbox_id":"a","state":"pending","status":{"image_pull":{"status":"failed","message":"no such image"}}}}`
)

// RoundTrip implements Upstream: ROCK's admin role, and the sandbox.
func (n *nursery) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if strings.HasPrefix(r.URL.Opaque, "/apis/") {
		n.asked.Add(1)
		if r.URL.Opaque != "/apis/envs/sandbox/v1/get_status" || r.URL.RawQuery != "sandbox_id=a" {
			return nil, fmt.Errorf("asked for %s", r.URL)
		}
		n.mu.Lock()
		say := n.status
		n.mu.Unlock()
		status, answer := say()
		answerWith(status, unary, answer)(w, r)
		return w.Result(), nil
	}
	n.sent <- r
	if r.Header.Get("Content-Type") == stream {
		answerWith(200, stream, frame(2, "{}"))(w, r)
	} else {
		answerWith(200, unary, "{}")(w, r)
	}
	return w.Result(), nil
}

// answerStatus changes what ROCK answers.
func (n *nursery) answerStatus(status func() (int, string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = status
}

// call makes a call for the sandbox "a".
func (n *nursery) call(ctx context.Context, path, contentType string, headers ...string) (*httptest.ResponseRecorder, Outcome) {
	r := httptest.NewRequest("POST", path, strings.NewReader("{}")).WithContext(ctx)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("E2b-Sandbox-Id", "a")
	r.Header.Set("E2b-Sandbox-Port", "49983")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	var out Outcome
	n.gateway.Serve(w, r, Both, Stranger, &out)
	return w, out
}

// after changes something in a while.
func after(d time.Duration, change func()) { time.AfterFunc(d, change) }

// wantEnd makes one call and expects its end, at a time after the beginning.
func (n *nursery) wantEnd(t *testing.T, want cause.Cause, from, to time.Duration) {
	t.Helper()
	begun := time.Now()
	_, out := n.call(t.Context(), stat, unary)
	if took := time.Since(begun); out.End != want || took < from || took > to {
		t.Errorf("%v after %v (%v), want %v after %v to %v", out.End, took, out.Err, want, from, to)
	}
}

func (n *nursery) wantNothingLeft(t *testing.T) {
	t.Helper()
	synctest.Wait()
	r := &n.gateway.ready
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.probes) != 0 || r.waiting != 0 {
		t.Errorf("%d probes and %d waiting calls are left", len(r.probes), r.waiting)
	}
}

func TestAllWhoWaitForASandboxAreServedAfterOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		begun := time.Now()
		n.status = func() (int, string) {
			if time.Since(begun) > 20*time.Second { // ROCK sees it now
				n.registry.say(routing.StateRunning, nil)
			}
			return 200, pending
		}
		var calls sync.WaitGroup
		for range 200 {
			calls.Go(func() {
				if w, out := n.call(t.Context(), stat, unary); w.Code != 200 || w.Body.String() != "{}" || out.End != cause.OK {
					t.Errorf("%d %s (%v)", w.Code, w.Body, out.Err)
				}
			})
		}
		calls.Wait()
		if took := time.Since(begun); took > 22*time.Second {
			t.Errorf("it took %v", took)
		}
		if asked := n.asked.Load(); asked < 15 || asked > 35 || len(n.sent) != 200 {
			t.Errorf("asked for the status %d times, %d calls went on", asked, len(n.sent))
		}
		n.wantNothingLeft(t)
	})
}

func TestAFailedStartEndsTheWaitOfAllWithinASecond(t *testing.T) {
	for name, fail := range map[string]func(*nursery){
		"told by get_status": func(n *nursery) { n.answerStatus(func() (int, string) { return 200, failedOne }) },
		"in the record":      func(n *nursery) { n.registry.say(routing.StateFailed, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNursery(t)
				var failed atomic.Int64
				after(10300*time.Millisecond, func() { failed.Store(time.Now().UnixNano()); fail(n) })
				var calls sync.WaitGroup
				for range 200 {
					calls.Go(func() {
						w, out := n.call(t.Context(), start, stream)
						if took := time.Since(time.Unix(0, failed.Load())); took > time.Second || out.End != cause.SandboxFailed ||
							!strings.Contains(w.Body.String(), `"unavailable"`) || !strings.Contains(w.Body.String(), "was not found running: it has failed to start") {
							t.Errorf("%v after %v: %s", out.End, took, w.Body)
						}
						if name == "told by get_status" && (out.Err == nil || !strings.Contains(out.Err.Error(), "no such image")) {
							t.Errorf("the log would have %v", out.Err)
						}
					})
				}
				calls.Wait()
				n.wantNothingLeft(t)
			})
		})
	}
}

func TestAWaitEndsWithWhatBecomesOfTheSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		state routing.State
		err   error
		want  cause.Cause
	}{
		"gone": {0, routing.ErrGone, cause.SandboxGone}, "paused": {routing.StatePaused, nil, cause.SandboxPaused},
		"expired": {routing.StateExpired, nil, cause.SandboxExpired}, "stopped": {routing.StateStopped, nil, cause.SandboxStopped},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNursery(t)
				after(5*time.Second, func() { n.registry.say(tc.state, tc.err) })
				n.wantEnd(t, tc.want, 5*time.Second, 6*time.Second)
				n.wantNothingLeft(t)
			})
		})
	}
	t.Run("killed through the gateway", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNursery(t)
			after(5*time.Second, func() { n.gateway.opt.Deaths.tell("a", cause.SandboxGone) })
			n.wantEnd(t, cause.SandboxGone, 5*time.Second, 5*time.Second)
		})
	})
	t.Run("the registry pushes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNursery(t)
			n.status = func() (int, string) { time.Sleep(statusTimeout / 2); return 200, pending } // it has time
			after(5500*time.Millisecond, func() { n.registry.say(routing.StateRunning, nil); n.registry.push <- "a" })
			n.wantEnd(t, cause.OK, 5500*time.Millisecond, 5500*time.Millisecond)
		})
	})
}

// Field report F08.
func TestAWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		n.wantEnd(t, cause.SandboxStarting, 2*time.Minute, 2*time.Minute)
		w, _ := n.call(t.Context(), start, stream)
		if !strings.Contains(w.Body.String(), `"aborted"`) || !strings.Contains(w.Body.String(), "nothing was done") {
			t.Errorf("%s", w.Body)
		}
		// An outage meanwhile is no end, and what is told if it lasts.
		after(time.Minute, func() { n.registry.say(0, routing.ErrUnavailable) })
		n.wantEnd(t, cause.RegistryUnavailable, 2*time.Minute, 2*time.Minute)
		if len(n.sent) != 0 {
			t.Error("something was sent")
		}
		n.wantNothingLeft(t)
	})
}

func TestNoMoreWaitThanMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t, func(o *Options) { o.ReadyWaiting = 2 })
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() { n.wantEnd(t, cause.OK, 3*time.Second, 5*time.Second) })
		}
		synctest.Wait()
		n.wantEnd(t, cause.SandboxStarting, 0, 0)
		after(3*time.Second, func() { n.registry.say(routing.StateRunning, nil) })
		calls.Wait()
		n.wantNothingLeft(t)
	})
}

func TestOneSandboxDoesNotTakeThePlacesOfAll(t *testing.T) {
	for most, one := range map[int]int{2: 2, 300: 256, 1600: 400} {
		synctest.Test(t, func(t *testing.T) {
			n := newNursery(t, func(o *Options) { o.ReadyWaiting = most })
			route := func(id string) *routing.Route { return &routing.Route{SandboxID: id, Cluster: n.cluster.Name} }
			var joined []*probe
			for range one {
				p, _ := n.gateway.ready.join(route("a"))
				joined = append(joined, p)
			}
			if p, why := n.gateway.ready.join(route("a")); p != nil || why != cause.SandboxStarting {
				t.Errorf("of %d places one sandbox takes more than %d", most, one)
			}
			if p, _ := n.gateway.ready.join(route("b")); (p != nil) != (one < most) {
				t.Errorf("of %d places another sandbox gets %v", most, p != nil)
			} else if p != nil {
				joined = append(joined, p)
			}
			for _, p := range joined {
				n.gateway.ready.leave(p)
			}
		})
	}
}

func TestAProbeEndsWithTheLastOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		var calls sync.WaitGroup
		for i := range 3 {
			ctx, leave := context.WithCancel(t.Context())
			after(time.Duration(i+1)*10*time.Second, leave)
			calls.Go(func() {
				if _, out := n.call(ctx, stat, unary); out.End != cause.ClientGone || !out.Abort {
					t.Errorf("%v, aborted %v", out.End, out.Abort)
				}
			})
		}
		calls.Wait()
		n.wantNothingLeft(t)
		asked := n.asked.Load()
		time.Sleep(time.Minute)
		if more := n.asked.Load() - asked; asked < 20 || more != 0 {
			t.Errorf("asked %d times, and %d times when nobody waited", asked, more)
		}
	})
}

// To anybody's program the header may mean anything, and it arrives as it was sent.
func TestTheHeaderOfADeadlineIsTheAppsOwnBusiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		n.cluster.Unmapped, n.cluster.AllowedHosts = routing.UnmappedDial, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		n.cluster.Own = func(netip.Addr) bool { return false }
		after(10*time.Second, func() {
			n.registry.mu.Lock()
			n.registry.route = &routing.Route{State: routing.StateRunning, Lifecycle: "life1", Host: netip.MustParseAddr("10.0.0.7")}
			n.registry.mu.Unlock()
			n.registry.push <- "a"
		})
		if _, out := n.call(t.Context(), "/", unary, "E2b-Sandbox-Port", "8080", "Connect-Timeout-Ms", "1000"); out.End != cause.OK {
			t.Fatalf("%v (%v)", out.End, out.Err)
		}
		if sent := (<-n.sent).Header.Get("Connect-Timeout-Ms"); sent != "1000" {
			t.Errorf("%s ms went on", sent)
		}
	})
}

// Whoever opens and closes the URL of a sandbox that starts costs ROCK no more than
// somebody who waits for it.
func TestWhoComesAndGoesDoesNotAskMoreOftenThanWhoStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		begun := time.Now()
		for range 300 {
			ctx, leave := context.WithCancel(t.Context())
			after(10*time.Millisecond, leave)
			n.call(ctx, stat, unary)
		}
		n.wantNothingLeft(t)
		if asked, most := int(n.asked.Load()), int(time.Since(begun)/statusPause)+1; asked < 2 || asked > most {
			t.Errorf("asked %d times in %v, at most %d are allowed", asked, time.Since(begun), most)
		}
		time.Sleep(time.Minute)
		for i := range 1000 {
			n.gateway.ready.mayAsk(t.Context(), fmt.Sprint(i), time.Now())
			time.Sleep(statusPause)
		}
		if left := len(n.gateway.ready.asked); left > 100 {
			t.Errorf("%d are remembered", left)
		}
	})
}

func TestTheClientsDeadlineCountsFromTheBeginningOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		begun := time.Now()
		if _, out := n.call(t.Context(), start, stream, "Connect-Timeout-Ms", "30000"); out.End != cause.Deadline || time.Since(begun) != 30*time.Second+deadlineGrace {
			t.Errorf("%v after %v", out.End, time.Since(begun))
		}
		after(10*time.Second, func() { n.registry.say(routing.StateRunning, nil); n.registry.push <- "a" })
		if _, out := n.call(t.Context(), start, stream, "Connect-Timeout-Ms", "30000"); out.End != cause.OK {
			t.Errorf("%v (%v)", out.End, out.Err)
		}
		if sent := (<-n.sent).Header.Get("Connect-Timeout-Ms"); sent != "20000" {
			t.Errorf("%s ms went on", sent)
		}
	})
}

func TestADrainEndsWaitsWhenItEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		plan := DrainPlan{Run: 10 * time.Second, Spread: 5 * time.Second, Rest: time.Second}
		drained := make(chan error)
		after(time.Second, func() { drained <- n.gateway.Drain(t.Context(), plan) })
		n.wantEnd(t, cause.Drain, 11*time.Second, 11*time.Second)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		// A call that was welcomed before the drain gets here after it.
		if _, f, _ := n.gateway.awaitReady(t.Context(), &routing.Route{SandboxID: "a", Cluster: "test"}); f.Cause != cause.Drain {
			t.Errorf("%v", f.Cause)
		}
	})
}

func TestWhoAsksWhetherASandboxRunsDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		begun := time.Now()
		if w, out := n.call(t.Context(), "/health", ""); w.Code != 502 || out.End != cause.SandboxStarting || time.Since(begun) != 0 {
			t.Errorf("%d, %v after %v", w.Code, out.End, time.Since(begun))
		}
		n = newNursery(t, func(o *Options) { o.ReadyTimeout = -1 })
		n.wantEnd(t, cause.SandboxStarting, 0, 0)
		if n.asked.Load() != 0 {
			t.Error("ROCK was asked")
		}
	})
}

// Contract of ROCK, 3.4: a record on Kubernetes may say running before it has an address.
func TestASandboxThatIsDialledIsReadyWithItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		n.cluster.Mode, n.cluster.AllowedHosts = routing.ModeDirect, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		after(3*time.Second, func() { n.registry.say(routing.StateRunning, nil) })
		after(9*time.Second, func() {
			n.registry.mu.Lock()
			defer n.registry.mu.Unlock()
			n.registry.route = &routing.Route{
				State: routing.StateRunning, Lifecycle: "life1",
				Host: netip.MustParseAddr("10.0.0.1"), Ports: routing.PortsOf(map[uint16]uint16{routing.EnvdPort: 1234}),
			}
		})
		n.wantEnd(t, cause.OK, 9*time.Second, 10*time.Second)
	})
}

func TestARockThatFailsIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		n.status = func() (int, string) { return 500, `{"detail":"out of order"}` }
		after(time.Minute, func() { n.registry.say(routing.StateRunning, nil) })
		n.wantEnd(t, cause.OK, time.Minute, time.Minute+time.Second)
		if asked := n.asked.Load(); asked < 5 || asked > 15 {
			t.Errorf("asked %d times in a minute", asked)
		}
		// That it does not know the sandbox is an answer.
		n.registry.say(routing.StateStarting, nil)
		n.gateway.opt.Routes.Invalidate("a")
		n.asked.Store(0)
		n.status = func() (int, string) { return 200, `{"status":"Failed","error":"a not found","result":{"code":4000}}` }
		after(time.Minute, func() { n.registry.say(routing.StateRunning, nil) })
		n.wantEnd(t, cause.OK, time.Minute, time.Minute+time.Second)
		if asked := n.asked.Load(); asked < 50 {
			t.Errorf("asked %d times in a minute", asked)
		}
	})
}

// What let the call in is looked at again when the wait is over.
func TestAWaitOutlivesNothingThatLetTheCallIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ask := func(meanwhile func()) *httptest.ResponseRecorder {
			d.records.set("alices", routing.StateStarting, noted("alice", alice))
			d.gateway.opt.Routes.Invalidate("alices")
			token := d.tokens.Mint(auth.AccessToken, "alices", "alice")
			after(10*time.Second, meanwhile)
			r := httptest.NewRequest("GET", "/files?path=/a", nil)
			r.Header.Set("E2b-Sandbox-Id", "alices")
			r.Header.Set("E2b-Sandbox-Port", "49983")
			r.Header.Set("X-Access-Token", token)
			w := httptest.NewRecorder()
			d.gateway.ServeHTTP(w, r)
			return w
		}
		if w := ask(func() { d.records.set("alices", routing.StateRunning, noted("alice", alice)) }); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		d.took()
		if w := ask(func() { d.records.set("alices", routing.StateRunning, noted("bob", bob)) }); w.Code != 502 {
			t.Errorf("it is bob's by now: %d %s", w.Code, w.Body)
		}
		for _, r := range d.took() {
			if !strings.Contains(r.URL.Opaque, "get_status") {
				t.Errorf("%s went on", r.URL)
			}
		}
	})
}

// net/http hears of the end of an HTTP/1.1 connection only behind the request's body.
func TestAClientThatLeavesWithItsBodySentDoesNotWaitOn(t *testing.T) {
	g := newRig(t)
	g.registry.say(routing.StateStarting, nil)
	g.admin = answerWith(200, unary, pending)
	c := g.dial(t)
	io.WriteString(c, "POST "+stat+" HTTP/1.1\r\n"+routingHeaders+"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	for range 200 {
		if g.gateway.ready.count() == 1 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	c.Close()
	g.wantEnd(t, cause.ClientGone)
}

func (r *readiness) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// Registry control takes a sandbox that is starting for one that runs. The call was
// refused, but it was sent, and so it is not sent again.
func TestACallThatRockRefusesBeforeTheStartIsToldSo(t *testing.T) {
	const notYet = `{"code":"not_found","message":"sandbox is not running"}`
	for name, tc := range map[string]struct {
		status string
		want   cause.Cause
	}{
		"starting": {pending, cause.SandboxStarting}, "failed": {failedOne, cause.SandboxFailed},
		"running": {`{"status":"Success","result":{"state":"running"}}`, cause.UpstreamUnavailable},
		"unknown": {`{"status":"Failed","error":"not found","result":{"code":4000}}`, cause.UpstreamUnavailable},
	} {
		g := newRig(t)
		g.admin = answerWith(200, unary, tc.status)
		g.proxy = answerWith(404, unary, notYet)
		if r := g.call(t, "POST", stat, unary, "{}"); r.status != tc.want.Status() {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		g.wantEnd(t, tc.want)
		g.proxy = answerWith(200, stream, frame(2, `{"error":`+notYet+`}`))
		if code, message := g.call(t, "POST", start, stream, frame(0, "{}")).endError(t); code != tc.want.Code() {
			t.Errorf("%s: %s %s", name, code, message)
		}
		g.wantEnd(t, tc.want)
	}
}
