package handlers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// lease is a registry whose sandboxes have two minutes to live, and more with each
// extension, as ROCK's have. The clock is the bubble's.
type lease struct {
	registry
	mu       sync.Mutex
	ends     map[string]time.Time
	extended map[string]int
	late     bool // a sandbox was extended after its end
	fails    error
}

const leased = 2 * time.Minute

// begin is what ROCK does when it sees a call.
func (l *lease) begin(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[id] = time.Now().Add(leased)
}

// Extend implements routing.Extender.
func (l *lease) Extend(_ context.Context, route *routing.Route) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extended[route.SandboxID]++
	if l.fails != nil {
		return l.fails
	}
	l.late = l.late || time.Now().After(l.ends[route.SandboxID]) && !l.ends[route.SandboxID].IsZero()
	l.ends[route.SandboxID] = time.Now().Add(leased)
	return nil
}

func (l *lease) extensions(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.extended[id]
}

func (l *lease) wasLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// alive reports whether the sandbox has not ended yet.
func (l *lease) alive(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.ends[id])
}

// busy is a gateway before sandboxes of which a test writes the answers.
type busy struct {
	lease
	gateway *Gateway
	cluster *routing.Cluster
	answer  func(r *http.Request, w *io.PipeWriter) // to every call
}

func newBusy(t *testing.T, change ...func(*Options)) *busy {
	b := &busy{}
	b.lease = lease{registry: registry{push: make(chan string)}, ends: map[string]time.Time{}, extended: map[string]int{}}
	b.registry.say(routing.StateRunning, nil)
	e, err := routing.ParseEndpoint("http://rock:8080")
	if err != nil {
		t.Fatal(err)
	}
	role := routing.NewBalancer([]*routing.Endpoint{e}, nil)
	b.cluster = &routing.Cluster{Name: "test", Mode: routing.ModeRock, Admin: role, Proxy: role}
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: &b.lease}}), routing.CacheOptions{})
	opt := Options{Clusters: []*routing.Cluster{b.cluster}, Routes: cache, Upstream: b}
	for _, c := range change {
		c(&opt)
	}
	b.gateway = New(opt)
	t.Cleanup(func() {
		b.gateway.Close()
		cache.Close()
		role.Close()
	})
	return b
}

// direct makes the sandboxes ones that are dialled.
func (b *busy) direct() {
	b.cluster.Mode, b.cluster.AllowedHosts = routing.ModeDirect, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	b.registry.mu.Lock()
	defer b.registry.mu.Unlock()
	b.registry.route = &routing.Route{
		State: routing.StateRunning, Lifecycle: "life1",
		Host: netip.MustParseAddr("10.0.0.1"), Ports: routing.PortsOf(map[uint16]uint16{routing.EnvdPort: 1234}),
	}
}

// RoundTrip implements Upstream.
func (b *busy) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.cluster.Mode == routing.ModeRock && r.Header.Get("E2b-Sandbox-Id") != "" {
		b.begin(r.Header.Get("E2b-Sandbox-Id"))
	}
	body, w := io.Pipe()
	context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
	go func() {
		b.answer(r, w)
		w.Close()
	}()
	kind := r.Header.Get("Accept")
	if kind == "" {
		kind = r.Header.Get("Content-Type")
	}
	return &http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, TransferEncoding: []string{"chunked"},
		Header: http.Header{"Content-Type": {kind}}, Body: body, Request: r,
	}, nil
}

// call makes a call for a sandbox and returns how it ended.
func (b *busy) call(t *testing.T, id, method, path string, body io.Reader, headers ...string) Outcome {
	r := httptest.NewRequest(method, path, body).WithContext(t.Context())
	r.Header.Set("E2b-Sandbox-Id", id)
	r.Header.Set("E2b-Sandbox-Port", "49983")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	var out Outcome
	b.gateway.Serve(httptest.NewRecorder(), r, Both, Stranger, &out)
	return out
}

// say writes a message every so often, n times.
func say(message string, every time.Duration, n int) func(*http.Request, *io.PipeWriter) {
	return func(r *http.Request, w *io.PipeWriter) {
		for range n {
			time.Sleep(every)
			io.WriteString(w, message)
		}
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+") {
			io.WriteString(w, frame(2, "{}"))
		}
	}
}

const alive = `{"event":{"keepalive":{}}}`

func TestACommandOfTenMinutesSurvivesATimeoutOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t)
		b.answer = say(frame(0, alive), 50*time.Second, 12)
		begun := time.Now()
		if out := b.call(t, "a", "POST", start, strings.NewReader(frame(0, "{}")), "Content-Type", stream); out.End != cause.OK {
			t.Errorf("%v (%v)", out.End, out.Err)
		}
		if took := time.Since(begun); took != 10*time.Minute || b.wasLate() || !b.alive("a") {
			t.Errorf("it took %v; extended too late: %v; alive: %v", took, b.wasLate(), b.alive("a"))
		}
		// Once for each keepalive message, but for the one that is the end.
		if n := b.extensions("a"); n < 10 || n > 12 {
			t.Errorf("extended %d times", n)
		}
		time.Sleep(time.Hour)
		if n := b.extensions("a"); n > 12 || b.alive("a") {
			t.Errorf("extended %d times, also when nobody used it", n)
		}
	})
}

func TestWhateverLastsIsAUse(t *testing.T) {
	slow := func() io.Reader {
		r, w := io.Pipe()
		go func() {
			for range 60 {
				time.Sleep(5 * time.Second)
				io.WriteString(w, "x")
			}
			w.Close()
		}()
		return r
	}
	for name, call := range map[string]func(*testing.T, *busy){
		"a download": func(t *testing.T, b *busy) {
			b.answer = say("x", 5*time.Second, 60)
			b.call(t, "a", "GET", "/files?path=/a", nil, "Accept", "application/octet-stream")
		},
		"an upload": func(t *testing.T, b *busy) {
			b.answer = func(r *http.Request, w *io.PipeWriter) { io.Copy(io.Discard, r.Body); io.WriteString(w, "[]") }
			b.call(t, "a", "POST", "/files?path=/a", slow(), "Content-Type", unary)
		},
		"events": func(t *testing.T, b *busy) {
			b.answer = say("data: x\n\n", 5*time.Second, 60)
			b.call(t, "a", "GET", "/files?path=/a", nil, "Accept", "text/event-stream")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBusy(t)
				begun := time.Now()
				call(t, b)
				if took := time.Since(begun); took != 5*time.Minute || !b.alive("a") {
					t.Errorf("after %v the sandbox is alive: %v", took, b.alive("a"))
				}
				if n := b.extensions("a"); n < 9 || n > 10 {
					t.Errorf("extended %d times in 5 minutes", n)
				}
			})
		})
	}
}

func TestASandboxIsExtendedOncePerIntervalHoweverMuchItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t)
		b.answer = say(frame(0, alive), 100*time.Millisecond, 3000)
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				b.call(t, string(rune('a'+i%2)), "POST", start, strings.NewReader(frame(0, "{}")), "Content-Type", stream)
			})
		}
		calls.Wait()
		for _, id := range []string{"a", "b"} {
			if n := b.extensions(id); n < 9 || n > 11 {
				t.Errorf("%s was extended %d times in 5 minutes", id, n)
			}
		}
	})
}

func TestASilentStreamIsNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t)
		b.answer = func(_ *http.Request, w *io.PipeWriter) {
			io.WriteString(w, frame(0, "{}"))
			time.Sleep(time.Hour)
		}
		b.call(t, "a", "POST", start, strings.NewReader(frame(0, "{}")), "Content-Type", stream)
		if n := b.extensions("a"); n != 1 {
			t.Errorf("extended %d times", n)
		}
	})
}

// ROCK sees no call to a sandbox that is dialled, however short it is. That the sandbox
// is asked for its health, or looked at on the control plane, is no use of it.
func TestEveryCallToASandboxThatIsDialledIsAUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t)
		b.answer = func(_ *http.Request, w *io.PipeWriter) { io.WriteString(w, "{}") }
		b.call(t, "rock", "POST", stat, strings.NewReader("{}"), "Content-Type", unary)
		b.direct()
		b.gateway.opt.Routes.Invalidate("direct")
		for range 10 {
			b.call(t, "direct", "POST", stat, strings.NewReader("{}"), "Content-Type", unary)
			b.call(t, "asked", "GET", "/health", nil)
			r := httptest.NewRequest("GET", "/sandboxes/looked-at", nil)
			b.gateway.Serve(httptest.NewRecorder(), r, Both, Stranger, new(Outcome))
			time.Sleep(6 * time.Second)
		}
		if n := b.extensions("direct"); n != 2 {
			t.Errorf("extended %d times in a minute", n)
		}
		for _, id := range []string{"rock", "asked", "looked-at"} {
			if n := b.extensions(id); n != 0 {
				t.Errorf("%s was extended %d times", id, n)
			}
		}
		time.Sleep(time.Hour)
		if n := b.extensions("direct"); n > 3 {
			t.Errorf("extended %d times, also when nobody used it", n)
		}
		left := 0
		b.gateway.activity.brief.Range(func(any, any) bool { left++; return true })
		if left != 0 {
			t.Errorf("%d sandboxes are kept in memory", left)
		}
		// And used again.
		before := b.extensions("direct") // a look may come at the very moment of the call
		b.call(t, "direct", "POST", stat, strings.NewReader("{}"), "Content-Type", unary)
		time.Sleep(time.Minute)
		if n := b.extensions("direct") - before; n != 1 {
			t.Errorf("extended %d times", n)
		}
	})
}

func TestAnExtensionThatFailsIsTriedAgainForAWhile(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		from, to int
	}{
		"an outage": {routing.ErrUnavailable, 3, 4}, "gone": {routing.ErrGone, 1, 1}, "cannot": {errors.ErrUnsupported, 1, 1}, "broken": {routing.ErrMalformed, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBusy(t)
				b.fails = tc.err
				b.direct()
				b.answer = func(_ *http.Request, w *io.PipeWriter) { io.WriteString(w, "{}") }
				b.call(t, "a", "POST", stat, strings.NewReader("{}"), "Content-Type", unary)
				time.Sleep(time.Hour)
				if n := b.extensions("a"); n < tc.from || n > tc.to {
					t.Errorf("tried %d times", n)
				}
			})
		})
	}
}

func TestNothingIsExtendedWhenThatIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t, func(o *Options) { o.Activity = -1 })
		b.direct()
		b.answer = say(frame(0, alive), 10*time.Second, 60)
		b.call(t, "a", "POST", start, strings.NewReader(frame(0, "{}")), "Content-Type", stream)
		if n := b.extensions("a"); n != 0 {
			t.Errorf("extended %d times", n)
		}
	})
}

func TestNotingAUseAllocatesNothing(t *testing.T) {
	a := &activity{on: true}
	route := &routing.Route{SandboxID: "a"}
	a.touch(route)
	d := &watchdog{}
	if n := testing.AllocsPerRun(100, func() { a.touch(route); d.pass(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// No use gets lost between those who note it and the one who looks.
func TestAUseThatIsNotedWhileSomebodyLooksIsSeen(t *testing.T) {
	a := &activity{on: true, due: map[string]due{}}
	route := &routing.Route{SandboxID: "a"}
	for range 5000 {
		noted := make(chan struct{})
		go func() {
			a.touch(route)
			close(noted)
		}()
		a.takeBrief(time.Time{})
		<-noted
		a.takeBrief(time.Time{})
		if _, ok := a.due["a"]; !ok {
			t.Fatal("a use was lost")
		}
		clear(a.due)
	}
}
