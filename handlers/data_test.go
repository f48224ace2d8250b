package handlers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Contract checklist 5, 6, 8, 9, 11; field reports D09, E02, E08.
func TestBadRoutingHeadersAreRefusedBeforeAnythingIsLookedUp(t *testing.T) {
	g := newRig(t)
	for name, headers := range map[string][]string{
		"none":            {},
		"only the id":     {"E2b-Sandbox-Id", "a"},
		"only the port":   {"E2b-Sandbox-Port", "49983"},
		"two ids":         {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Id", "b", "E2b-Sandbox-Port", "49983"},
		"joined ids":      {"E2b-Sandbox-Id", "a, b", "E2b-Sandbox-Port", "49983"},
		"empty id":        {"E2b-Sandbox-Id", "", "E2b-Sandbox-Port", "49983"},
		"illegal id":      {"E2b-Sandbox-Id", "a/../b", "E2b-Sandbox-Port", "49983"},
		"pattern id":      {"E2b-Sandbox-Id", "*", "E2b-Sandbox-Port", "49983"},
		"port zero":       {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", "0"},
		"port too high":   {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", "65536"},
		"port with sign":  {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", "+80"},
		"port with zero":  {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", "080"},
		"port of letters": {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", "abc"},
		"two ports":       {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", "80", "E2b-Sandbox-Port", "22"},
		"joined ports":    {"E2b-Sandbox-Id", "a", "E2b-Sandbox-Port", "80, 22"},
	} {
		t.Run(name, func(t *testing.T) {
			r := g.send(t, "GET", "/files?path=%2Fa&signature=v1_x", "", "", headers...)
			if code, message := r.e2b(t); r.status != 400 || code != 400 || message == "" {
				t.Errorf("%d %s", r.status, r.body)
			}
			g.wantEnd(t, cause.BadRequest)
			if code, _ := g.send(t, "POST", start, stream, "", headers...).endError(t); code != "invalid_argument" {
				t.Errorf("stream: %s", code)
			}
			g.wantEnd(t, cause.BadRequest)
		})
	}
	if g.registry.asked != 0 || g.upstreamHits.Load() != 0 {
		t.Errorf("%d lookups, %d upstream calls", g.registry.asked, g.upstreamHits.Load())
	}
}

// Contract checklist 1, 7, 12, 18, 19; field reports C02, C06, E01, E11.
func TestARequestArrivesAsItWasSent(t *testing.T) {
	var uri, host, body string
	var header http.Header
	g := newRig(t)
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		uri, host, header, body = r.RequestURI, r.Host, r.Header, string(b)
	}
	target := "/files?path=/a%2Fb/%2e+c%20d&x=%2B&y=1+2&z&z=&q=%252526"
	r := g.send(t, "POST", target, "application/octet-stream", "\x00bytes", "E2b-Sandbox-Id", "ap-sandbox-1a", "E2b-Sandbox-Port", "49983",
		"Authorization", "Basic dXNlcjo=", "X-Access-Token", "token", "X-Api-Key", "secret", "X-Key", "secret", "Xrl-Authorization", "secret",
		"Keepalive-Ping-Interval", "50", "Connect-Timeout-Ms", "1500.5", "Keep-Alive", "timeout=5", "Proxy", "http://x",
		"Accept-Encoding", "gzip, deflate", "Connection", "X-Hop, E2b-Sandbox-Id", "X-Hop", "1", "X-Twice", "a", "X-Twice", "b")
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if uri != target || body != "\x00bytes" || host != strings.TrimPrefix(g.URL, "http://") {
		t.Errorf("uri %q host %q body %q", uri, host, body)
	}
	for name, want := range map[string]string{
		"E2b-Sandbox-Id": "ap-sandbox-1a", "E2b-Sandbox-Port": "49983", "Authorization": "Basic dXNlcjo=", "X-Access-Token": "token",
		"Keepalive-Ping-Interval": "50", "Connect-Timeout-Ms": "1500.5", "X-Api-Key": "", "X-Key": "", "Xrl-Authorization": "",
		"Keep-Alive": "", "Proxy": "", "X-Hop": "", "Accept-Encoding": "gzip, deflate",
	} {
		if got := strings.Join(header[name], "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := header["X-Twice"]; len(got) != 2 {
		t.Errorf("X-Twice: %q", got)
	}
}

func TestWhatTheRegistrySaysIsToldInTheProtocolOfTheCall(t *testing.T) {
	for _, tc := range []struct {
		name          string
		state         routing.State
		err           error
		want          cause.Cause
		code          string
		unary, health int
	}{
		// Contract checklist 49, 57, 58; field report D07.
		{"gone", 0, routing.ErrGone, cause.SandboxGone, "unavailable", 502, 502},
		{"deleted", routing.StateDeleted, nil, cause.SandboxGone, "unavailable", 502, 502},
		{"paused", routing.StatePaused, nil, cause.SandboxPaused, "failed_precondition", 400, 502},
		{"starting", routing.StateStarting, nil, cause.SandboxStarting, "aborted", 503, 502},
		// Field report F12: an outage is not a death.
		{"unavailable", 0, routing.ErrUnavailable, cause.RegistryUnavailable, "aborted", 503, 503},
		{"malformed", 0, routing.ErrMalformed, cause.RouteUnusable, "aborted", 503, 503},
		{"unknown state", routing.StateUnknown, nil, cause.RouteUnusable, "aborted", 503, 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t, func(o *Options) { o.ReadyTimeout = -1 })
			g.registry.say(tc.state, tc.err)
			if r := g.call(t, "GET", "/health", "", ""); r.status != tc.health {
				t.Errorf("health: %d %s", r.status, r.body)
			} else if code, _ := r.e2b(t); code != tc.health {
				t.Errorf("health: %s", r.body)
			}
			g.wantEnd(t, tc.want)
			r := g.call(t, "POST", stat, unary, "{}")
			if code, message := r.connect(t); r.status != tc.unary || code != tc.code || !strings.Contains(message, "sbx-1") {
				t.Errorf("unary: %d %s", r.status, r.body)
			}
			g.wantEnd(t, tc.want)
			r = g.call(t, "POST", start, stream, "")
			if code, message := r.endError(t); r.status != 200 || code != tc.code || !strings.Contains(message, "sbx-1") || r.header.Get("Content-Type") != stream {
				t.Errorf("stream: %d %s", r.status, r.body)
			}
			g.wantEnd(t, tc.want)
			if g.upstreamHits.Load() != 0 {
				t.Error("an upstream was called")
			}
		})
	}
}

// Rock contract 3.12, what the gateway must translate: 1, 2 and 3.
func TestRocksWordIsHeldAgainstTheRegistry(t *testing.T) {
	notFound := answerWith(404, unary, `{"code":"not_found","message":"sandbox is not running"}`)
	lost := answerWith(503, unary, `{"code":"unavailable","message":"sandbox file service is unavailable"}`)
	inStream := answerWith(200, stream, frame(2, `{"error":{"code":"not_found","message":"sandbox is not running"}}`))
	midStream := answerWith(200, stream, frame(0, `{"event":{"start":{"pid":7}}}`)+frame(2, `{"error":{"code":"unavailable","message":"sandbox command service is unavailable"}}`))
	dead := answerWith(502, "text/plain", "")
	for _, tc := range []struct {
		name         string
		rock         http.HandlerFunc
		target, kind string
		state        routing.State
		err          error
		status       int
		code         string
	}{
		{"not running, gone", notFound, stat, unary, 0, routing.ErrGone, 502, "unavailable"},
		{"not running, paused", notFound, stat, unary, routing.StatePaused, nil, 400, "failed_precondition"},
		{"not running, but it is", notFound, stat, unary, routing.StateRunning, nil, 500, "aborted"},
		{"not running, don't know", notFound, stat, unary, 0, routing.ErrUnavailable, 503, "aborted"},
		{"unavailable, gone", lost, stat, unary, 0, routing.ErrGone, 502, "unavailable"},
		{"unavailable, but it runs", lost, stat, unary, routing.StateRunning, nil, 500, "aborted"},
		{"stream not running, gone", inStream, start, stream, 0, routing.ErrGone, 200, "unavailable"},
		{"stream not running, don't know", inStream, start, stream, 0, routing.ErrUnavailable, 200, "aborted"},
		{"stream lost, runs", midStream, start, stream, routing.StateRunning, nil, 200, "aborted"},
		{"stream lost, paused", midStream, start, stream, routing.StatePaused, nil, 200, "failed_precondition"},
		{"health 502, gone", dead, "/health", "", 0, routing.ErrGone, 502, ""},
		{"health 502, but it runs", dead, "/health", "", routing.StateRunning, nil, 503, ""},
		{"health 502, don't know", dead, "/health", "", 0, routing.ErrUnavailable, 503, ""},
		{"health 500", answerWith(500, "text/plain", "Traceback"), "/health", "", 0, routing.ErrUnavailable, 503, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				g.registry.say(tc.state, tc.err)
				tc.rock(w, r)
			}
			r := g.call(t, methodOf(tc.target), tc.target, tc.kind, "{}")
			var code string
			switch tc.kind {
			case stream:
				code, _ = r.endError(t)
			case unary:
				code, _ = r.connect(t)
			default:
				r.e2b(t)
			}
			if r.status != tc.status || code != tc.code {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
}

func TestRocksTextIsKeptUnlessItNamesSomethingInternal(t *testing.T) {
	for text, kept := range map[string]bool{
		"sandbox file service is unavailable": true,
		"connect to 10.0.0.7:31001 failed":    false,
		"http://rock-worker/x":                false,
		"rock-worker-3:22555 refused":         false,
		"fd00::17:3 refused":                  false,
		"Traceback (most recent call last)":   false,
		"dial [fd00::17]: refused":            false,
		"failed at 14:12:44, item [0] of [a]": true,
	} {
		g := newRig(t)
		g.proxy = answerWith(503, unary, fmt.Sprintf(`{"code":"unavailable","message":%q}`, text))
		if _, message := g.call(t, "POST", stat, unary, "{}").connect(t); strings.Contains(message, text) != kept {
			t.Errorf("%q became %q", text, message)
		}
	}
}

// Contract checklist 59: the gateway never rewrites an answer that the registry
// does not contradict, and a 404 or 409 is always the call's own. Field report D10.
func TestAnswersOfTheCallItselfPassUnchanged(t *testing.T) {
	for _, tc := range []struct {
		target, kind string
		status       int
		body         string
	}{
		{stat, unary, 404, `{"code":"not_found","message":"path /x does not exist"}`},
		{"/filesystem.Filesystem/MakeDir", unary, 409, `{"code": "already_exists", "message": "exists"}`},
		{stat, unary, 403, `{"code":"permission_denied","message":"no"}`},
		{stat, unary, 429, `{"code":"resource_exhausted","message":"busy"}`},
		{"/files?path=x", "", 404, `{"code":404,"message":"path does not exist"}`},
		{"/files?path=x", "", 409, `{"code":409,"message":"the sandbox is in transition"}`},
		{"/files?path=x", "", 507, `{"code":507,"message":"full"}`},
		{"/files?path=x", "", 200, "\x00\x01bytes"},
		{"/health", "", 204, ""},
	} {
		g := newRig(t)
		contentType := unary
		again := ""
		if tc.status == 429 {
			again = "7"
		}
		g.proxy = func(w http.ResponseWriter, r *http.Request) {
			if again != "" {
				w.Header().Set("Retry-After", again)
			}
			answerWith(tc.status, contentType, tc.body)(w, r)
		}
		r := g.call(t, methodOf(tc.target), tc.target, tc.kind, "{}")
		if r.status != tc.status || r.body != tc.body || r.header.Get("Retry-After") != again {
			t.Errorf("%s %d: got %d %q", tc.target, tc.status, r.status, r.body)
		}
		g.wantEnd(t, cause.OK)
		if g.registry.asked != 1 {
			t.Errorf("%s %d: %d lookups", tc.target, tc.status, g.registry.asked)
		}
	}
}

// Rock contract 3.12, 4; contract checklist 33, 51, 52, 68.
func TestAnswersThatAreNotInTheProtocolAreConverted(t *testing.T) {
	framework := `{"detail":"Not Found"}`
	trace := `<html>Traceback (most recent call last): File "/rock/main.py"</html>`
	for _, tc := range []struct {
		name           string
		rock           http.HandlerFunc
		target, kind   string
		status         int
		code, contains string
	}{
		{"unknown RPC", answerWith(404, unary, framework), "/filesystem.Filesystem/Remove", unary, 501, "unimplemented", "filesystem.Filesystem/Remove is not offered"},
		{"unknown streaming RPC", answerWith(404, unary, framework), "/filesystem.Filesystem/WatchDir", stream, 200, "unimplemented", "WatchDir is not offered"},
		{"wrong method", answerWith(405, unary, `{"detail":"Method Not Allowed"}`), stat, unary, 501, "unimplemented", "not offered"},
		{"validation", answerWith(422, unary, `{"detail":[{"loc":["body"],"msg":"field required"}]}`), stat, unary, 400, "invalid_argument", ""},
		{"traceback", answerWith(500, "text/plain", trace), stat, unary, 500, "internal", "could not be understood"},
		{"traceback on a stream", answerWith(500, "text/html", trace), start, stream, 200, "internal", ""},
		{"redirect", answerWith(307, "", ""), stat, unary, 501, "unimplemented", ""},
		{"error object on a stream", answerWith(400, unary, `{"code":"invalid_argument","message":"bad cwd"}`), start, stream, 200, "invalid_argument", "bad cwd"},
		{"limit on a stream", answerWith(429, unary, `{"code":429,"message":"slow down"}`), start, stream, 200, "resource_exhausted", "slow down"},
		{"page on a stream", answerWith(200, "text/html", "<html>"), start, stream, 200, "internal", ""},
		{"other codec", answerWith(200, "application/connect+proto", ""), start, stream, 200, "internal", ""},
		{"empty stream", answerWith(200, stream, ""), start, stream, 200, "aborted", "ended before it was complete"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.proxy = tc.rock
			r := g.call(t, methodOf(tc.target), tc.target, tc.kind, "{}")
			code, message := "", ""
			if tc.kind == stream {
				code, message = r.endError(t)
			} else {
				code, message = r.connect(t)
			}
			if r.status != tc.status || code != tc.code || !strings.Contains(message, tc.contains) || strings.Contains(r.body, "Traceback") {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
}

// Contract checklist 35 and 36, field reports B01, B03 and B04: each message on
// its own, exact content type, nothing for a proxy in front to buffer or to compress.
func TestMessagesArriveWhileTheStreamGoesOn(t *testing.T) {
	for contentType, end := range map[string]string{
		stream: frame(2, "{}"), "application/connect+proto": frame(2, "{}"), "application/grpc-web+proto": frame(0x80, "grpc-status: 0\r\n"),
	} {
		t.Run(contentType, func(t *testing.T) {
			g := newRig(t)
			next := make(chan string)
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", contentType+"; charset=utf-8")
				w.Header().Set("Cache-Control", "no-cache")
				w.WriteHeader(200)
				w.(http.Flusher).Flush()
				for m := range next {
					io.WriteString(w, m)
					w.(http.Flusher).Flush()
				}
			}
			r, _ := http.NewRequest("POST", g.URL+start, strings.NewReader(""))
			r.Header = http.Header{"Content-Type": {contentType}, "E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}, "Accept-Encoding": {"gzip, deflate"}}
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, contentType) || contentType == stream && ct != stream ||
				resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("X-Accel-Buffering") != "no" ||
				strings.Join(resp.Header["Cache-Control"], ", ") != "no-cache, no-transform" {
				t.Errorf("%v", resp.Header)
			}
			for _, m := range []string{frame(0, "one"), frame(0, "two"), end} {
				next <- m
				got := make([]byte, len(m))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != m {
					t.Fatalf("%q, %v", got, err)
				}
			}
			close(next)
			if rest, err := io.ReadAll(resp.Body); len(rest) != 0 || err != nil {
				t.Fatalf("%q, %v", rest, err)
			}
		})
	}
}

// reset breaks the connection after what was written.
func reset(w http.ResponseWriter, bytes string) {
	io.WriteString(w, bytes)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// Contract checklist 42, 45, 46, 50. Field report A06.
func TestABrokenStreamEndsInTheProtocol(t *testing.T) {
	startEvent, endEvent := frame(0, `{"event":{"start":{"pid":7}}}`), frame(0, `{"event":{"end":{"exitCode":3,"exited":true}}}`)
	for _, tc := range []struct {
		name, sent string
		state      routing.State
		err        error
		messages   int
		end        string
	}{
		{"gone", startEvent, 0, routing.ErrGone, 1, "unavailable"},
		{"paused", startEvent, routing.StatePaused, nil, 1, "failed_precondition"},
		{"still there", startEvent + "\x00\x00\x00\x00\x09half", routing.StateRunning, nil, 1, "aborted"},
		{"don't know", "", 0, routing.ErrUnavailable, 0, "aborted"},
		{"process over", startEvent + endEvent, 0, routing.ErrGone, 2, ""},
		{"stream over", startEvent + endEvent + frame(2, "{}"), 0, routing.ErrGone, 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				g.registry.say(tc.state, tc.err)
				w.Header().Set("Content-Type", stream)
				reset(w, tc.sent)
			}
			r := g.call(t, "POST", start, stream, "")
			messages, end := r.frames(t)
			code := ""
			if end != "{}" {
				code, _ = r.endError(t)
			}
			if len(messages) != tc.messages || code != tc.end {
				t.Errorf("%q %q", messages, end)
			}
		})
	}
}

// Contract checklist 55, field reports A02 and A12: a cut must look cut.
func TestABrokenBodyOfAnyOtherKindIsVisiblyCut(t *testing.T) {
	for name, tc := range map[string]struct{ target, kind, answerType string }{
		"file": {"/files?path=x", "", "application/octet-stream"},
		"sse":  {"/files?path=x", "", "text/event-stream"},
	} {
		g := newRig(t)
		g.proxy = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", tc.answerType)
			reset(w, "part")
		}
		r := g.call(t, methodOf(tc.target), tc.target, tc.kind, "{}")
		if r.err == nil || r.body != "part" {
			t.Errorf("%s: %q, %v", name, r.body, r.err)
		}
		g.wantEnd(t, cause.Truncated)
	}
}

// Contract checklist 41, field report A13.
func TestAClientThatLeavesEndsTheUpstreamRequest(t *testing.T) {
	g := newRig(t)
	left := make(chan struct{})
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", stream)
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", g.URL+start, strings.NewReader(""))
	r.Header = http.Header{"Content-Type": {stream}, "E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Fatal("the upstream request goes on")
	}
	g.wantEnd(t, cause.ClientGone)
	if !g.cluster.Proxy.Endpoints()[0].Up() {
		t.Error("the proxy role is blamed")
	}
}

// Contract checklist 10, field report M03.
func TestEnvdsManagementRoutesAreNeverForwarded(t *testing.T) {
	g := newRig(t)
	for _, target := range []string{"/init", "//init", "/files/../init", "/%69nit", "/init/", "/freeze", "/a/..%2Funfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"} {
		r := g.call(t, "POST", target, unary, "{}")
		if code, _ := r.e2b(t); r.status != 404 || code != 404 || !strings.Contains(r.body, `"path":`) {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 || g.registry.lookups() != 0 {
		t.Errorf("%d upstream calls, %d lookups", n, g.registry.lookups())
	}
}

// Field report H03: an answer is one, whatever it says. A request that was sent has been
// sent once, however many addresses there are.
func TestNoAnswerIsAskedForAgainElsewhere(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"500": answerWith(500, unary, `{"code":"internal","message":"m"}`), "502": answerWith(502, "text/html", "<html>"),
		"503": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "0")
			answerWith(503, unary, `{"code":"unavailable","message":"m"}`)(w, r)
		},
		"504": answerWith(504, "text/html", "<html>"), "429": answerWith(429, unary, `{"code":"resource_exhausted","message":"m"}`),
		"425": answerWith(425, "", ""), "408": answerWith(408, "", ""), "421": answerWith(421, "", ""),
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			for _, role := range []**routing.Balancer{&g.cluster.Admin, &g.cluster.Proxy} {
				live := (*role).Endpoints()[0]
				*role = routing.NewBalancer([]*routing.Endpoint{live, live, live}, nil)
				defer (*role).Close()
			}
			g.admin, g.proxy = answer, answer
			for _, call := range []struct{ target, kind string }{{start, stream}, {stat, unary}, {"/files?path=x", ""}, {"/sandboxes", unary}} {
				g.upstreamHits.Store(0)
				if g.call(t, "POST", call.target, call.kind, "{}"); g.upstreamHits.Load() != 1 {
					t.Errorf("%s was sent %d times", call.target, g.upstreamHits.Load())
				}
			}
		})
	}
}

// Contract checklist 62 and field report H04: a body meets a dead address first.
func TestALargeBodySurvivesADeadFirstAddress(t *testing.T) {
	g := newRig(t)
	dead, err := routing.ParseEndpoint("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	live := g.cluster.Proxy.Endpoints()[0]
	g.cluster.Proxy = routing.NewBalancer([]*routing.Endpoint{dead, live}, nil)
	defer g.cluster.Proxy.Close()
	body := strings.Repeat("0123456789abcdef", 1<<16)
	var got string
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
	}
	id := 0
	for g.cluster.Proxy.Candidates(fmt.Sprint("s", id))[0] != dead {
		id++
	}
	for _, b := range []string{body, "small", ""} {
		r := g.send(t, "POST", "/files?path=x", "", b, "E2b-Sandbox-Id", fmt.Sprint("s", id), "E2b-Sandbox-Port", "49983")
		if r.status != 200 || got != b {
			t.Fatalf("%d %s: %d of %d bytes arrived", r.status, r.body, len(got), len(b))
		}
	}
}

func TestWhenNoProxyAddressAnswersNothingWasDone(t *testing.T) {
	g := newRig(t)
	dead, _ := routing.ParseEndpoint("http://127.0.0.1:1")
	g.cluster.Proxy = routing.NewBalancer([]*routing.Endpoint{dead}, nil)
	defer g.cluster.Proxy.Close()
	r := g.call(t, "GET", "/health", "", "")
	if code, _ := r.e2b(t); code != 503 || r.status != 503 || r.header.Get("Retry-After") == "" || strings.Contains(r.body, "127.0.0.1") {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	g.wantEnd(t, cause.ClusterUnreachable)
}

// methodOf is the method with which SDKs call a path.
func methodOf(target string) string {
	if target == "/health" {
		return http.MethodGet
	}
	return http.MethodPost
}
