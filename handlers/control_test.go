package handlers

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// The split that ROCK's deployment guide asks of every gateway. Field reports D01 and E11.
func TestEachControlCallGoesToItsRole(t *testing.T) {
	g := newRig(t)
	answered := ""
	role := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			answered = name + " " + r.Method + " " + r.RequestURI
			body := `{"sandboxID":"a-1"}`
			if name == "proxy" {
				body = `[]`
			}
			answerWith(200, unary, body)(w, r)
		}
	}
	g.admin, g.proxy = role("admin"), role("proxy")
	for _, tc := range []struct{ method, target, want string }{
		{"POST", "/sandboxes", "admin POST /sandboxes"},
		{"POST", "/v2/sandboxes", "admin POST /sandboxes"},
		{"GET", "/sandboxes/a-1", "admin GET /sandboxes/a-1"},
		{"DELETE", "/sandboxes/a-1", "admin DELETE /sandboxes/a-1"},
		{"POST", "/sandboxes/a-1/timeout", "admin POST /sandboxes/a-1/timeout"},
		{"POST", "/sandboxes/a-1/pause", "admin POST /sandboxes/a-1/pause"},
		{"GET", "/templates/aliases/ns%2Fname", "admin GET /templates/aliases/ns%2Fname"},
	} {
		if r := g.send(t, tc.method, tc.target, unary, "{}"); r.status != 200 || answered != tc.want {
			t.Errorf("%s %s: %d, %s", tc.method, tc.target, r.status, answered)
		}
	}
}

// pauseBody is nothing that the gateway would write itself.
const pauseBody = `{"force" : true,"memory":false, "later":[1.0]}`

// Contract checklist 23, 28, 29, 30 (the paging header) and 32. A pause is the
// call with the most answers that must arrive as they are: newer SDKs look at
// the first bytes of a 503 to see whether it was refused. Field report D10.
func TestAnE2BAnswerPassesToTheByte(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
	}{
		{201, `{"sandboxID": "a",  "clientID":"rock"}`},
		{204, ""},
		{200, `[{"sandboxID":"a"}]`},
		{200, `{"forced":false}`},
		{404, `{"code":404, "message":"Sandbox a not found"}`},
		{400, `{"message":"bad","code":400}`},
		{409, `{"code":409,"message":"paused already"}`},
		{429, `{"code":429,"message":"too many sandboxes"}`},
		// A refusal of ROCK's own keeps its code, and nobody repeats it.
		{503, `{"code":503,"message":"busy","error_code":"sandbox_pause_refused"}`},
		{503, `{"error_code":"sandbox_pause_refused","code":503, "message":"node 10.0.0.5:8080 cannot reach the agent"}`},
	} {
		g := newRig(t)
		g.admin = func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
			w.Header().Set("X-Next-Token", "next")
			if tc.status == 429 {
				w.Header().Set("Retry-After", "7")
			}
			if body, _ := io.ReadAll(r.Body); string(body) != pauseBody {
				t.Errorf("ROCK got %q", body)
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(tc.status)
			for _, part := range strings.SplitAfter(tc.body, ",") { // in pieces
				io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		}
		r := g.send(t, "POST", "/sandboxes/a/pause", unary, pauseBody)
		if tc.status != 204 && (r.header.Get("Content-Type") != "application/json; charset=utf-8" || r.header.Get("Content-Length") != strconv.Itoa(len(tc.body))) {
			t.Errorf("%d is not in one piece: %v", tc.status, r.header)
		}
		if r.status != tc.status || r.body != tc.body || r.header.Get("X-Next-Token") != "next" || len(r.header["Set-Cookie"]) != 2 || (r.header.Get("Retry-After") == "7") != (tc.status == 429) {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
		if n := g.upstreamHits.Load(); n != 1 {
			t.Errorf("%d: ROCK was called %d times", tc.status, n)
		}
	}
}

// Contract checklist 26, 27, 33; rock contract 3.12, 4.
func TestAnAnswerThatIsNotE2BsBecomesAnE2BError(t *testing.T) {
	for _, tc := range []struct {
		name         string
		status       int
		contentType  string
		body         string
		want         int
		contains     string
		method, path string
	}{
		{"route missing", 404, unary, `{"detail":"Not Found"}`, 501, "Sandbox.pause is not offered by this deployment", "POST", "/sandboxes/a/pause"},
		{"method missing", 405, unary, `{"detail":"Method Not Allowed"}`, 501, "Sandbox.update_network is not offered", "PUT", "/sandboxes/a/network"},
		{"slash redirect", 307, "", "", 501, "not offered", "GET", "/sandboxes/a"},
		{"templates", 404, unary, `{"detail":"Not Found"}`, 501, "Template is not offered", "POST", "/v3/templates"},
		{"validation list", 422, unary, `{"detail":[{"loc":["body","timeout"],"msg":"field required"}]}`, 400, "timeout: field required", "POST", "/sandboxes"},
		{"validation text", 400, unary, `{"detail":"Cannot do that"}`, 400, "Cannot do that", "POST", "/sandboxes"},
		{"traceback", 500, "text/plain", "Traceback (most recent call last):\n  File \"/rock/admin/main.py\"", 500, "outcome of this call is unknown", "POST", "/sandboxes"},
		{"nginx 502", 502, "text/html", "<html>502 Bad Gateway", 500, "unknown", "POST", "/sandboxes"},
		{"nginx 503", 503, "text/html", "<html>503", 500, "unknown", "POST", "/sandboxes"},
		{"nginx 504", 504, "text/html", "<html>504", 504, "unknown", "POST", "/sandboxes"},
		{"nginx 413", 413, "text/html", "<html>413", 413, "too large", "POST", "/sandboxes"},
		{"nginx 429", 429, "text/html", "<html>429", 429, "Too many", "POST", "/sandboxes"},
		{"nginx 401", 401, "text/html", "<html>401", 401, "credential", "POST", "/sandboxes"},
		{"unknown status", 599, "text/html", "<html>", 500, "unknown", "POST", "/sandboxes"},
		{"status and code differ", 404, unary, `{"code":500,"message":"x"}`, 501, "", "POST", "/sandboxes/a/pause"},
		{"an array", 500, unary, `["x"]`, 500, "", "POST", "/sandboxes"},
		{"empty", 500, "", "", 500, "", "POST", "/sandboxes"},
		{"failure with 200", 200, unary, `{"status":"Failed","message":"start failed","error":"sandbox a not started","result":null}`, 500, "sandbox a not started", "POST", "/sandboxes"},
		{"bad request with 200", 200, unary, `{"status":"Failed","message":"m","error":"bad image","result":{"code":4000}}`, 400, "bad image", "POST", "/sandboxes"},
		{"failure naming a host", 200, unary, `{"status":"Failed","message":"m","error":"10.0.0.7:22555 refused"}`, 500, "m", "POST", "/sandboxes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.admin = answerWith(tc.status, tc.contentType, tc.body)
			r := g.send(t, tc.method, tc.path, unary, "{}")
			code, message := r.e2b(t)
			if r.status != tc.want || code != tc.want || !strings.Contains(message, tc.contains) || strings.Contains(message, "10.0.0.7") || message == "" {
				t.Errorf("%d %s", r.status, r.body)
			}
			if r.header.Get("Content-Type") != "application/json; charset=utf-8" || r.header.Get("Location") != "" {
				t.Errorf("%v", r.header)
			}
		})
	}
}

// Contract checklist 31, field report H01: 503 only when nothing was done. Field report C07:
// whoever gives up says so in JSON.
func TestAnUnknownOutcomeIsNever503(t *testing.T) {
	g := newRig(t)
	g.admin = func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	r := g.send(t, "POST", "/sandboxes", unary, `{}`)
	if code, _ := r.e2b(t); code != 500 {
		t.Errorf("lost: %s", r.body)
	}
	g.wantEnd(t, cause.UpstreamReset)

	g = newRig(t, func(o *Options) { o.ControlTimeout = 50 * time.Millisecond })
	g.admin = func(w http.ResponseWriter, r *http.Request) {
		// net/http notices that its client left once the body has been read.
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	r = g.send(t, "POST", "/sandboxes", unary, `{}`)
	if code, _ := r.e2b(t); code != 504 {
		t.Errorf("too slow: %s", r.body)
	}
	g.wantEnd(t, cause.Deadline)

	g = newRig(t)
	dead, _ := routing.ParseEndpoint("http://127.0.0.1:1")
	g.cluster.Admin = routing.NewBalancer([]*routing.Endpoint{dead, dead}, nil)
	defer g.cluster.Admin.Close()
	r = g.send(t, "POST", "/sandboxes", unary, `{}`)
	if code, _ := r.e2b(t); code != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("never sent: %v %s", r.header, r.body)
	}
	g.wantEnd(t, cause.ClusterUnreachable)
}

// Field report H03.
func TestOnlyADialThatFailsLeadsToTheNextAddress(t *testing.T) {
	g := newRig(t)
	dead, _ := routing.ParseEndpoint("http://127.0.0.1:1")
	live := g.cluster.Admin.Endpoints()[0]
	g.cluster.Admin = routing.NewBalancer([]*routing.Endpoint{dead, live}, nil)
	defer g.cluster.Admin.Close()
	body := ""
	g.admin = func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		answerWith(201, unary, `{"sandboxID":"a"}`)(w, r)
	}
	for range 4 {
		if r := g.send(t, "POST", "/sandboxes", unary, `{"timeout":1,"metadata":{}}`); r.status != 201 || body != `{"timeout":1,"metadata":{}}` {
			t.Fatalf("%d %s, %q", r.status, r.body, body)
		}
	}
	if dead.Up() {
		t.Error("the dead address still counts as up")
	}
	g.upstreamHits.Store(0)
	g.cluster.Admin = routing.NewBalancer([]*routing.Endpoint{live, live}, nil)
	g.admin = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if g.send(t, "POST", "/sandboxes", unary, `{}`); g.upstreamHits.Load() != 1 {
		t.Errorf("a create that was sent was sent %d times", g.upstreamHits.Load())
	}
}

// Field report F07: read your own kill.
func TestAKillIsSeenByTheNextCall(t *testing.T) {
	g := newRig(t)
	g.proxy = answerWith(204, "", "")
	g.admin = answerWith(204, "", "")
	if r := g.call(t, "GET", "/health", "", ""); r.status != 204 {
		t.Fatalf("%d", r.status)
	}
	if r := g.send(t, "DELETE", "/sandboxes/sbx-1", "", ""); r.status != 204 || r.body != "" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	// The registry still has the record: ROCK evicts it a little later.
	if r := g.call(t, "GET", "/health", "", ""); r.status != 502 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestASandboxThatWasAskedForTooEarlyIsFoundOnceCreated(t *testing.T) {
	g := newRig(t)
	g.proxy = answerWith(204, "", "")
	g.registry.say(0, routing.ErrGone)
	if r := g.call(t, "GET", "/health", "", ""); r.status != 502 {
		t.Fatalf("%d", r.status)
	}
	g.admin = func(w http.ResponseWriter, r *http.Request) {
		g.registry.say(routing.StateRunning, nil)
		answerWith(201, unary, `{"sandboxID":"sbx-1"}`)(w, r)
	}
	g.send(t, "POST", "/sandboxes", unary, "{}")
	if r := g.call(t, "GET", "/health", "", ""); r.status != 204 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestAnIllegalIdInAControlPathGoesNowhere(t *testing.T) {
	g := newRig(t)
	for _, id := range []string{"%2A", "a%20b", "%2e%2e%2fx", "-a", "a%00b", strings.Repeat("a", 254)} {
		r := g.send(t, "GET", "/sandboxes/"+id, "", "")
		if code, _ := r.e2b(t); code != 400 && code != 404 {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 {
		t.Errorf("%d upstream calls", n)
	}
}

func TestAControlBodyIsBounded(t *testing.T) {
	g := newRig(t, func(o *Options) { o.MaxControlBody = 100 })
	r := g.send(t, "POST", "/sandboxes", unary, `{"a":"`+strings.Repeat("x", 100)+`"}`)
	if code, _ := r.e2b(t); code != 413 || g.upstreamHits.Load() != 0 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// Contract checklist 26: unknown routes too.
func TestWhatIsNoCallOfTheAPIIsA404InItsShape(t *testing.T) {
	g := newRig(t)
	for _, target := range []string{"/", "/favicon.ico", "/sandboxes/", "/sandboxes//a", "/apis/envs/sandbox/v1/get_token", "/apis/envs/sandbox/v1/host/proxy/x"} {
		r := g.send(t, "GET", target, "", "")
		if code, message := r.e2b(t); code != 404 || r.status != 404 || message == "" {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 {
		t.Errorf("%d upstream calls", n)
	}
}

func TestWithSeveralClustersASandboxIsFoundWhereverItIs(t *testing.T) {
	g := newRig(t)
	other := newRig(t)
	g.gateway.opt.Clusters = append(g.gateway.opt.Clusters, other.cluster)
	g.registry.say(0, errors.New("down"))
	notFound := answerWith(404, unary, `{"code":404,"message":"no"}`)
	for name, tc := range map[string]struct {
		here, there http.HandlerFunc
		want        int
	}{
		"first":   {answerWith(200, unary, `{}`), notFound, 200},
		"second":  {notFound, answerWith(200, unary, `{}`), 200},
		"nowhere": {notFound, notFound, 404},
	} {
		g.admin, other.admin = tc.here, tc.there
		if r := g.send(t, "GET", "/sandboxes/a", "", ""); r.status != tc.want {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}
