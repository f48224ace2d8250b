package handlers

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Field report C04.
func TestAGracePeriodIsDividedAndNeverExceeded(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Millisecond, time.Second, 8 * time.Second, 30 * time.Second, time.Hour} {
		p := PlanDrain(grace)
		if sum := p.Run + p.Spread + p.Rest; sum > grace || p.Run < 0 || p.Spread < 0 || p.Rest < 0 {
			t.Errorf("%v is divided into %+v", grace, p)
		}
	}
	if p := PlanDrain(30 * time.Second); p != (DrainPlan{Run: 17500 * time.Millisecond, Spread: 10 * time.Second, Rest: time.Second}) {
		t.Errorf("%+v", p)
	}
	if p := PlanDrain(-time.Second); p != (DrainPlan{}) {
		t.Errorf("%+v", p)
	}
}

// idleGateway is a gateway that serves nobody.
func idleGateway(t *testing.T) *Gateway {
	reg := &registry{}
	reg.say(routing.StateRunning, nil)
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: reg}}), routing.CacheOptions{})
	t.Cleanup(cache.Close)
	return New(Options{Routes: cache})
}

// run registers a stream that ends as soon as it is told to.
func (g *Gateway) run(sandbox string, over func()) {
	g.calls.enter()
	ctx, cancel := context.WithCancelCause(context.Background())
	stream := &running{seen: new(sight), route: &routing.Route{SandboxID: sandbox}, cancel: cancelFunc(cancel)}
	g.streams.add(stream)
	context.AfterFunc(ctx, func() {
		g.streams.remove(stream)
		if endedBy(ctx) == cause.Drain {
			over()
		}
		g.calls.leave()
	})
}

// Field report C04.
func TestStreamsAreEndedEvenlySpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := idleGateway(t)
		const n = 1000
		begun := time.Now()
		plan := DrainPlan{Run: 10 * time.Second, Spread: 20 * time.Second, Rest: time.Second}
		var slices [10]atomic.Int32
		for range n {
			g.run("a", func() {
				at := time.Since(begun) - plan.Run
				slices[int(min(9, max(0, math.Floor(float64(at)/float64(plan.Spread)*10))))].Add(1)
			})
		}
		if err := g.Drain(t.Context(), plan); err != nil {
			t.Error(err)
		}
		for i := range slices {
			if got := slices[i].Load(); got < 95 || got > 105 {
				t.Errorf("%d streams were ended in tenth %d", got, i)
			}
		}
		if d := time.Since(begun); d > plan.Run+plan.Spread {
			t.Errorf("it took %v", d)
		}
	})
}

func TestADrainIsOverWithTheLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := idleGateway(t)
		plan := DrainPlan{Run: time.Hour, Spread: time.Hour, Rest: time.Hour}
		begun := time.Now()
		g.calls.enter()
		time.AfterFunc(time.Minute, g.calls.leave)
		if err := g.Drain(t.Context(), plan); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestAStreamThatComesLateIsEndedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := idleGateway(t)
		g.streams.drain()
		var over atomic.Bool
		g.run("a", func() { over.Store(true) })
		synctest.Wait()
		if !over.Load() {
			t.Error("it runs on")
		}
	})
}

func TestADrainEndsWithItsContextWhenACallIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := idleGateway(t)
		g.calls.enter()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Drain(ctx, PlanDrain(30*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		g.calls.leave()
	})
}

// Found by the chaos suite: a stream that breaks while the gateway goes away is told so,
// and not cut because the reason is still being looked for.
func TestADrainDoesNotWaitForTheReasonOfABrokenStream(t *testing.T) {
	g := newRig(t, func(o *Options) { o.LookBound = time.Hour })
	g.proxy = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", stream)
		reset(w, frame(0, `{"event":{"start":{"pid":7}}}`))
	}
	answer := make(chan reply, 1)
	go func() { answer <- g.call(t, "POST", start, stream, "{}") }()
	for g.gateway.looks.pending() == 0 {
		runtime.Gosched()
	}
	if err := g.gateway.Drain(t.Context(), DrainPlan{Run: time.Millisecond, Spread: time.Millisecond, Rest: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if code, message := (<-answer).endError(t); code != "aborted" || !strings.Contains(message, "may still be running") {
		t.Errorf("%s %s", code, message)
	}
}

// drained is a rig whose gateway has drained: nothing was left to wait for.
func drained(t *testing.T) *rig {
	t.Helper()
	g := newRig(t)
	if err := g.gateway.Drain(t.Context(), DrainPlan{Run: time.Hour}); err != nil {
		t.Fatal(err)
	}
	return g
}

// Contract checklist 66.
func TestNewCallsAreRefusedPolitelyInADrain(t *testing.T) {
	g := drained(t)
	check := func(name string, r reply, status int) {
		t.Helper()
		if r.status != status {
			t.Errorf("%s: %d", name, r.status)
		}
		if (status == 503) != (r.header.Get("Retry-After") == "1") {
			t.Errorf("%s: Retry-After %q", name, r.header.Get("Retry-After"))
		}
		g.wantEnd(t, cause.Drain)
	}
	r := g.call(t, "POST", start, stream, "{}")
	check("stream", r, 200)
	if code, message := r.endError(t); code != "aborted" || !strings.Contains(message, "reconnect") {
		t.Errorf("%s %s", code, message)
	}
	r = g.call(t, "POST", stat, unary, "{}")
	check("unary", r, 503)
	if code, _ := r.connect(t); code != "aborted" {
		t.Errorf("%s", code)
	}
	check("file", g.call(t, "GET", "/files?path=/a", "", ""), 503)
	check("health", g.call(t, "GET", "/health", "", ""), 503)
	check("control", g.send(t, "POST", "/sandboxes", unary, "{}"), 503)
	if n := g.upstreamHits.Load(); n != 0 {
		t.Errorf("%d requests were sent on", n)
	}
}

// Contract checklist 65.
// Field report C05: the client hears of the end of its connection before it sends on it.
func TestOverHTTP1ARefusalClosesTheConnection(t *testing.T) {
	g := drained(t)
	resp, err := http.Get(g.URL + "/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !resp.Close || resp.StatusCode != 503 {
		t.Errorf("%d, Connection: close is %t", resp.StatusCode, resp.Close)
	}
}

// A GOAWAY would end the other streams of the connection.
func TestOverHTTP2ARefusalDoesNotCloseTheConnection(t *testing.T) {
	g := drained(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.gateway.ServeHTTP(w, r)
		if v := w.Header().Get("Connection"); r.ProtoMajor == 2 && v != "" {
			t.Errorf("Connection: %s", v)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != 503 {
		t.Errorf("%s %d", resp.Proto, resp.StatusCode)
	}
}

// Contract checklist 66: streams end in-band; whatever else runs is told that
// its outcome is unknown, because 503 would promise that nothing was done.
func TestWhatRunsAtTheEndOfADrainIsToldSo(t *testing.T) {
	for name, tc := range map[string]struct {
		target, kind string
		proxy        http.HandlerFunc
		end          cause.Cause
		status       int
	}{
		"stream":                {start, stream, silent, cause.Drain, 200},
		"stream before headers": {start, stream, mute, cause.Drain, 200},
		"unary":                 {stat, unary, mute, cause.Deadline, 504},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			arrived := make(chan struct{})
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				tc.proxy(w, r)
			}
			done := make(chan error, 1)
			go func() {
				<-arrived
				done <- g.gateway.Drain(t.Context(), DrainPlan{Spread: 50 * time.Millisecond, Rest: 50 * time.Millisecond})
			}()
			r := g.call(t, "POST", tc.target, tc.kind, "{}")
			if r.status != tc.status {
				t.Errorf("%d", r.status)
			}
			if tc.kind == stream {
				if code, message := r.endError(t); code != "aborted" || !strings.Contains(message, "The gateway is restarting") {
					t.Errorf("%s %s", code, message)
				}
			} else if code, _ := r.connect(t); code != "deadline_exceeded" {
				t.Errorf("%s", code)
			}
			g.wantEnd(t, tc.end)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAControlCallAtTheEndOfADrainHasAnUnknownOutcome(t *testing.T) {
	g := newRig(t)
	arrived := make(chan struct{})
	g.admin = func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}
	done := make(chan error, 1)
	go func() {
		<-arrived
		done <- g.gateway.Drain(t.Context(), DrainPlan{})
	}()
	r := g.send(t, "POST", "/sandboxes", unary, `{"templateID":"a"}`)
	if _, message := r.e2b(t); r.status != 504 || !strings.Contains(message, "unknown") || r.header.Get("Should-Retry") != "false" {
		t.Errorf("%d %s, Should-Retry: %q", r.status, message, r.header.Get("Should-Retry"))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// mute is a proxy role that takes a call and says nothing.
func mute(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}
