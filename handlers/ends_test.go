package handlers

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// silent is a proxy role that starts a stream and then says nothing.
func silent(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", stream)
	io.WriteString(w, frame(0, `{"event":{"start":{"pid":7}}}`))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// Contract checklist 40, field report A15.
func TestTheClientsDeadlineEndsACallThatIsSilent(t *testing.T) {
	for name, tc := range map[string]struct {
		proxy        http.HandlerFunc
		target, kind string
	}{
		"stream, after headers": {silent, start, stream},
		"stream, no headers":    {func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, start, stream},
		"unary":                 {func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, stat, unary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.proxy = tc.proxy
			begun := time.Now()
			r := g.call(t, "POST", tc.target, tc.kind, "{}", "Connect-Timeout-Ms", "200")
			code := ""
			if tc.kind == stream {
				code, _ = r.endError(t)
			} else {
				code, _ = r.connect(t)
				if r.status != 504 {
					t.Errorf("%d", r.status)
				}
			}
			if d := time.Since(begun); code != "deadline_exceeded" || d < 200*time.Millisecond || d > 10*time.Second {
				t.Errorf("%s after %v", code, d)
			}
			g.wantEnd(t, cause.Deadline)
		})
	}
}

func TestTheOtherSidesOwnWordOnTheDeadlineComesFirst(t *testing.T) {
	g := newRig(t)
	own := frame(2, `{"error":{"code":"deadline_exceeded","message":"command timed out"}}`)
	g.proxy = answerWith(200, stream, own)
	if r := g.call(t, "POST", start, stream, "", "Connect-Timeout-Ms", "1"); r.body != own {
		t.Errorf("%q", r.body)
	}
}

// Field report C06: what is no number is envd's to judge.
func TestADeadlineIsANumberOfAtMostTenDigits(t *testing.T) {
	for value, want := range map[string]time.Duration{"1": time.Millisecond, "60000": time.Minute, "9999999999": 9999999999 * time.Millisecond, "0": 0} {
		if d, ok := clientDeadline(http.Header{"Connect-Timeout-Ms": {value}}); !ok || d != want {
			t.Errorf("%q: %v, %v", value, d, ok)
		}
	}
	for _, values := range [][]string{nil, {""}, {"-1"}, {"1500.5"}, {"1e3"}, {" 1"}, {"12345678901"}, {"1", "2"}} {
		if d, ok := clientDeadline(http.Header{"Connect-Timeout-Ms": values}); ok {
			t.Errorf("%q: %v", values, d)
		}
	}
}

// openStream starts a command at a silent sandbox and reads its first message.
func (g *rig) openStream(t *testing.T) io.Reader {
	t.Helper()
	g.proxy = silent
	c := g.dial(t)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: sbx-1\r\nE2b-Sandbox-Port: 49983\r\nContent-Type: %s\r\nContent-Length: 0\r\n\r\n", start, stream)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len(frame(0, `{"event":{"start":{"pid":7}}}`)))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

// A sandbox that was ended from elsewhere may leave its connections open.
func TestStreamsEndWhenTheRegistrySaysThatTheSandboxHas(t *testing.T) {
	for name, tc := range map[string]struct {
		pushed string
		state  routing.State
		err    error
		code   string
	}{
		"killed":               {"sbx-1", 0, routing.ErrGone, "unavailable"},
		"paused":               {"sbx-1", routing.StatePaused, nil, "failed_precondition"},
		"seen after an outage": {"", 0, routing.ErrGone, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			body := g.openStream(t)
			g.registry.push <- "somebody-else"
			g.registry.push <- "sbx-1" // and nothing has happened to it
			g.registry.say(tc.state, tc.err)
			g.registry.push <- tc.pushed
			rest, err := io.ReadAll(body)
			if code, _ := (reply{body: string(rest), err: err}).endError(t); code != tc.code {
				t.Errorf("the stream ended with %s", code)
			}
		})
	}
}

// Field report A19.
func TestAKillOrPauseThroughTheGatewayEndsTheStreams(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path, answer string
		status               int
		code                 string
	}{
		"kill":  {"DELETE", "/sandboxes/sbx-1", "", 204, "unavailable"},
		"pause": {"POST", "/sandboxes/sbx-1/pause", `{"forced":false}`, 200, "failed_precondition"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.admin = answerWith(tc.status, unary, tc.answer)
			body := g.openStream(t)
			if r := g.send(t, tc.method, tc.path, unary, "{}"); r.status != tc.status || r.body != tc.answer {
				t.Fatalf("%d %s", r.status, r.body)
			}
			rest, err := io.ReadAll(body)
			if code, _ := (reply{body: string(rest), err: err}).endError(t); code != tc.code {
				t.Errorf("the stream ended with %s", code)
			}
			g.gateway.streams.mu.Lock()
			defer g.gateway.streams.mu.Unlock()
			if n := len(g.gateway.streams.live); n != 0 {
				t.Errorf("%d sandboxes still have streams", n)
			}
		})
	}
}

// ROCK changes a record some time after it has stopped the container.
func TestTheCauseIsFoundWhenTheRecordGoesLater(t *testing.T) {
	for name, tc := range map[string]struct {
		state routing.State
		err   error
		code  string
		end   cause.Cause
	}{
		"killed":  {0, routing.ErrGone, "unavailable", cause.SandboxGone},
		"expired": {routing.StateExpired, nil, "unavailable", cause.SandboxExpired},
		"paused":  {routing.StatePaused, nil, "failed_precondition", cause.SandboxPaused},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(o *Options) { o.LookBound = 5 * time.Second })
			g.proxy = func(w http.ResponseWriter, _ *http.Request) {
				time.AfterFunc(300*time.Millisecond, func() { g.registry.say(tc.state, tc.err) })
				w.Header().Set("Content-Type", stream)
				reset(w, frame(0, "{}"))
			}
			if code, _ := g.call(t, "POST", start, stream, "").endError(t); code != tc.code {
				t.Errorf("%s", code)
			}
			g.wantEnd(t, tc.end)
		})
	}
}

// ROCK's own way of failing is HTTP 200.
func TestAPauseThatFailedEndsNoStream(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"failure envelope": answerWith(200, unary, `{"status":"Failed","message":"no","error":"cannot pause","result":{"code":5000}}`),
		"refused":          answerWith(503, unary, `{"code":503,"message":"no","error_code":"sandbox_pause_refused"}`),
		"paused already":   answerWith(409, unary, `{"code":409,"message":"paused already"}`),
		"a web page":       answerWith(200, "text/html", "<html>"),
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.admin = answer
			goOn := make(chan struct{})
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", stream)
				w.(http.Flusher).Flush()
				<-goOn
				io.WriteString(w, frame(2, `{}`))
			}
			answered := make(chan reply)
			go func() { answered <- g.call(t, "POST", start, stream, "") }()
			for len(g.gateway.streams.of("sbx-1")) == 0 {
				runtime.Gosched()
			}
			g.send(t, "POST", "/sandboxes/sbx-1/pause", unary, "{}")
			close(goOn)
			if _, end := (<-answered).frames(t); end != "{}" {
				t.Errorf("the stream of a running sandbox ended with %s", end)
			}
		})
	}
}

// ROCK stops the container at once and answers when Docker has removed it. Until
// then the sandbox is still registered.
func TestAStreamThatDiesDuringAKillOrPauseWaitsForIt(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		status       int
		answer, code string
	}{
		"kill":                    {"DELETE", "/sandboxes/sbx-1", 204, "", "unavailable"},
		"pause":                   {"POST", "/sandboxes/sbx-1/pause", 200, `{"forced":false}`, "failed_precondition"},
		"a pause that is refused": {"POST", "/sandboxes/sbx-1/pause", 503, `{"code":503,"message":"no","error_code":"sandbox_pause_refused"}`, "aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(o *Options) { o.LookBound = 150 * time.Millisecond })
			stopped := make(chan struct{})
			g.admin = func(w http.ResponseWriter, r *http.Request) {
				close(stopped)
				<-time.After(600 * time.Millisecond)
				answerWith(tc.status, unary, tc.answer)(w, r)
			}
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", stream)
				w.(http.Flusher).Flush()
				<-stopped
				reset(w, frame(0, "{}"))
			}
			answered := make(chan reply)
			go func() { answered <- g.call(t, "POST", start, stream, "") }()
			for g.upstreamHits.Load() == 0 {
				runtime.Gosched()
			}
			if r := g.send(t, tc.method, tc.path, unary, "{}"); r.status != tc.status {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if code, text := (<-answered).endError(t); code != tc.code {
				t.Errorf("%s: %s", code, text)
			}
			if g.gateway.opt.Deaths.pending("sbx-1") {
				t.Error("the call is still taken to be under way")
			}
		})
	}
}

// 10,000 streams of one sandbox that die at once cost one search.
func TestManyDyingStreamsCostOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := &registry{}
		reg.say(routing.StateRunning, nil)
		cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: reg}}), routing.CacheOptions{})
		defer cache.Close()
		g := New(Options{Routes: cache})
		route := &routing.Route{SandboxID: "a", Cluster: "test", Lifecycle: "life1"}
		var dying sync.WaitGroup
		for range 10000 {
			dying.Go(func() {
				if why := g.looks.why(t.Context(), route); why != cause.OK {
					t.Errorf("%v", why)
				}
			})
		}
		dying.Wait()
		if reg.asked > 12 {
			t.Errorf("the registry was asked %d times", reg.asked)
		}
	})
}

func TestASandboxThatLivesAgainIsNotSearchedForLong(t *testing.T) {
	g := newRig(t, func(o *Options) { o.LookBound = time.Hour })
	g.proxy = func(w http.ResponseWriter, _ *http.Request) {
		g.registry.mu.Lock()
		g.registry.route = &routing.Route{State: routing.StateRunning, Lifecycle: "life2"}
		g.registry.mu.Unlock()
		w.Header().Set("Content-Type", stream)
		reset(w, "")
	}
	if code, message := g.call(t, "POST", start, stream, "").endError(t); code != "aborted" || !strings.Contains(message, "lost") {
		t.Errorf("%s %s", code, message)
	}
}
