package handlers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/integration/loopback"
	"github.com/caddy-e2b/gateway/routing"
)

// dial opens a raw connection to the gateway.
func (g *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

const routingHeaders = "Host: x\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 49983\r\n"

// answersAtOnce is a role that answers when it has read the headers of a
// request. net/http would read the body first.
func answersAtOnce(t *testing.T, answer string) *routing.Balancer {
	t.Helper()
	return roleOf(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err == nil {
			io.WriteString(c, answer)
		}
	})
}

// answersAndLeaves is a role that reads a whole request, answers it and ends
// the connection.
func answersAndLeaves(t *testing.T, answer string) *routing.Balancer {
	t.Helper()
	return roleOf(t, func(c net.Conn, in *bufio.Reader) {
		if r, err := http.ReadRequest(in); err == nil {
			io.Copy(io.Discard, r.Body)
			io.WriteString(c, answer)
		}
		c.Close()
	})
}

// roleOf is a role that serves each connection in its own way.
func roleOf(t *testing.T, serve func(c net.Conn, in *bufio.Reader)) *routing.Balancer {
	t.Helper()
	address := loopback.Serve(t, func(c net.Conn) {
		t.Cleanup(func() { c.Close() })
		serve(c, bufio.NewReader(c))
	})
	return routing.NewBalancer([]*routing.Endpoint{{Scheme: "http", Address: address}}, nil)
}

// What is left of a body after an early answer is never read as a request.
func TestAConnectionEndsAfterAnAnswerThatCameBeforeTheBody(t *testing.T) {
	dead, _ := routing.ParseEndpoint("http://127.0.0.1:1")
	for name, framing := range map[string]string{"known length": "Content-Length: 200000\r\n\r\n0123456789", "chunked": "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n"} {
		for _, unreachable := range []bool{false, true} {
			t.Run(fmt.Sprint(name, unreachable), func(t *testing.T) {
				g := newRig(t)
				g.cluster.Proxy = answersAtOnce(t, "HTTP/1.1 507 Full\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n{\"code\":507,\"message\":\"full\"}")
				want := 507
				if unreachable {
					g.cluster.Proxy = routing.NewBalancer([]*routing.Endpoint{dead}, nil)
					want = 503
				}
				c := g.dial(t)
				fmt.Fprintf(c, "POST /files?path=x HTTP/1.1\r\n%s%s", routingHeaders, framing)
				br := bufio.NewReader(c)
				begun := time.Now()
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != want || len(body) == 0 || !resp.Close {
					t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, body)
				}
				if d := time.Since(begun); d > abandonedBodyGrace/2 {
					t.Errorf("the answer took %v", d)
				}
				<-g.outcomes
				fmt.Fprintf(c, "GET /health HTTP/1.1\r\n%s\r\n", routingHeaders)
				if rest, _ := io.ReadAll(br); len(rest) != 0 {
					t.Errorf("the rest of the body was answered with %q", rest)
				}
			})
		}
	}
}

// An empty 200 would be success to every SDK.
func TestABodyThatCannotBeReadIsNoSuccess(t *testing.T) {
	for name, request := range map[string]string{
		"control": "DELETE /sandboxes/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
		"data":    "POST /files?path=x HTTP/1.1\r\n" + routingHeaders + "Transfer-Encoding: chunked\r\n\r\nZZZ\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.proxy = func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
			g.admin = g.proxy
			c := g.dial(t)
			io.WriteString(c, request)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 400 {
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
	for name, request := range map[string]string{
		"small":    "POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"streamed": "POST /files?path=x HTTP/1.1\r\n" + routingHeaders + "Content-Length: 100000\r\n\r\nx",
	} {
		t.Run("a client that leaves, "+name, func(t *testing.T) {
			g := newRig(t)
			g.proxy = func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
			c := g.dial(t)
			io.WriteString(c, request)
			c.(*net.TCPConn).CloseWrite()
			if answer, _ := io.ReadAll(c); strings.HasPrefix(string(answer), "HTTP/1.1 200") {
				t.Errorf("%q", answer)
			}
		})
	}
}

// "Nothing was done" is said only when it is true: newer SDKs repeat the call.
func TestNobodyIsToldToRepeatWhatMayHaveBeenDone(t *testing.T) {
	begun := frame(0, `{"event":{"start":{"pid":7}}}`)
	for _, tc := range []struct {
		name         string
		rock         http.HandlerFunc
		target, kind string
		state        routing.State
		err          error
	}{
		{"lost, restarting", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "/process.Process/SendInput", unary, routing.StateStarting, nil},
		{"lost, don't know", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "/process.Process/SendInput", unary, 0, routing.ErrUnavailable},
		{"unavailable, don't know", answerWith(503, unary, `{"code":"unavailable","message":"lost"}`), "/filesystem.Filesystem/MakeDir", unary, 0, routing.ErrUnavailable},
		{"unavailable, restarting", answerWith(503, unary, `{"code":"unavailable","message":"lost"}`), "/filesystem.Filesystem/MakeDir", unary, routing.StateStarting, nil},
		{"stream, don't know", answerWith(200, stream, begun+frame(2, `{"error":{"code":"unavailable","message":"lost"}}`)), start, stream, 0, routing.ErrUnavailable},
		{"stream, not running after all", answerWith(200, stream, begun+frame(2, `{"error":{"code":"not_found","message":"sandbox is not running"}}`)), start, stream, routing.StateStarting, nil},
		{"stream cut, restarting", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", stream)
			reset(w, begun)
		}, start, stream, routing.StateStarting, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t)
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				g.registry.say(tc.state, tc.err)
				tc.rock(w, r)
			}
			r := g.call(t, "POST", tc.target, tc.kind, "{}")
			if strings.Contains(r.body, "nothing was done") || r.status == 503 || r.header.Get("Retry-After") != "" || !strings.Contains(r.body, "aborted") {
				t.Errorf("%d %v %q", r.status, r.header, r.body)
			}
		})
	}
}

func TestAChangeOfTheTimeoutKeepsTheLastKnownRoute(t *testing.T) {
	g := newRig(t)
	g.proxy, g.admin = answerWith(204, "", ""), answerWith(204, "", "")
	g.call(t, "GET", "/health", "", "")
	g.registry.say(0, routing.ErrUnavailable)
	g.send(t, "POST", "/sandboxes/sbx-1/timeout", unary, `{"timeout":60}`)
	if r := g.call(t, "GET", "/health", "", ""); r.status != 204 {
		t.Errorf("%d %s", r.status, r.body)
	}
	// A pause does change where the sandbox is.
	g.send(t, "POST", "/sandboxes/sbx-1/pause", unary, `{}`)
	if r := g.call(t, "GET", "/health", "", ""); r.status != 503 {
		t.Errorf("after a pause: %d %s", r.status, r.body)
	}
}

func TestANotModifiedIsNoRedirect(t *testing.T) {
	g := newRig(t)
	g.proxy = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"x"`)
		w.WriteHeader(304)
	}
	if r := g.call(t, "GET", "/files?path=x", "", "", "If-None-Match", `"x"`); r.status != 304 || r.header.Get("Etag") != `"x"` {
		t.Errorf("%d %v", r.status, r.header)
	}
}

// dialFails is an Upstream that cannot connect.
type dialFails struct{ err error }

func (d dialFails) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &upstream.DialError{Err: d.err}
}

// A port is closed when the other side says so. Lost packets say nothing, and to older
// SDKs 502 is the death of the sandbox.
func TestOnlyWhatTheOtherSideRefusesIsCalledAClosedPort(t *testing.T) {
	for err, want := range map[error]cause.Cause{
		syscall.ECONNREFUSED:   cause.PortClosed,
		syscall.ECONNRESET:     cause.PortClosed,
		syscall.EHOSTUNREACH:   cause.SandboxUnreachable,
		syscall.ENETUNREACH:    cause.SandboxUnreachable,
		os.ErrDeadlineExceeded: cause.SandboxUnreachable,
		syscall.EMFILE:         cause.ClusterUnreachable,
		syscall.EADDRNOTAVAIL:  cause.ClusterUnreachable,
		errors.New("pool"):     cause.ClusterUnreachable,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			g := newDirect(t, err)
			g.call(t, "POST", stat, unary, "{}")
			g.wantEnd(t, want)
		})
	}
}

// Contract checklist 52.
func TestOnlyAPlain200OfTheRightTypeIsAStream(t *testing.T) {
	body := frame(0, "{}") + frame(2, "{}")
	for name, h := range map[string]http.HandlerFunc{
		"202": answerWith(202, stream, body),
		"206": answerWith(206, "text/html", "<html>"),
		"204": answerWith(204, stream, ""),
		"gzip": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answerWith(200, stream, body)(w, r)
		},
	} {
		g := newRig(t)
		g.proxy = h
		r := g.call(t, "POST", start, stream, "")
		if code, _ := r.endError(t); r.status != 200 || code != "internal" || r.header.Get("Content-Encoding") != "" || r.header.Get("Content-Type") != stream {
			t.Errorf("%s: %d %v %q", name, r.status, r.header, r.body)
		}
		g.wantEnd(t, cause.UpstreamInvalid)
	}
}

func TestAPageIsNoAnswerToAUnaryCall(t *testing.T) {
	g := newRig(t)
	g.proxy = answerWith(200, "text/html", "<html>")
	g.admin = g.proxy
	if code, _ := g.call(t, "POST", stat, unary, "{}").connect(t); code != "internal" {
		t.Error(code)
	}
	r := g.send(t, "DELETE", "/sandboxes/a", "", "")
	if code, _ := r.e2b(t); code != 500 || r.header.Get("Should-Retry") != "false" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

// A body that its sender broke is not the sandbox's fault.
func TestABrokenUploadIsTheClientsFault(t *testing.T) {
	g := newRig(t)
	g.proxy = func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
	inner := g.Server.Config.Handler
	g.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 100<<10)
		inner.ServeHTTP(w, r)
	})
	r, _ := http.NewRequest("POST", g.URL+"/files?path=x", io.NopCloser(&zeros{left: 200 << 10}))
	r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("%d", resp.StatusCode)
	}
	if g.registry.asked != 1 {
		t.Errorf("%d lookups", g.registry.asked)
	}
}

// No message carries an internal address; what the client sent comes back.
func TestAddressesOfTheDeploymentStayInside(t *testing.T) {
	const text = "HTTPConnectionPool(host='10.0.0.7', port=22555): refused"
	g := newRig(t)
	g.admin = answerWith(500, unary, `{"code":500,"message":"`+text+`"}`)
	if r := g.send(t, "GET", "/sandboxes/a", "", ""); r.status != 500 || strings.Contains(r.body, "10.0.0.7") {
		t.Errorf("control: %d %s", r.status, r.body)
	} else if code, _ := r.e2b(t); code != 500 {
		t.Errorf("control: %s", r.body)
	}
	g.admin = answerWith(503, unary, `{"code":503,"message":"`+text+`"}`)
	if r := g.send(t, "GET", "/sandboxes/a", "", ""); r.status != 503 || strings.Contains(r.body, "10.0.0.7") {
		t.Errorf("control 503: %d %s", r.status, r.body)
	}
	g.proxy = answerWith(500, unary, `{"code":"internal","message":"`+text+`"}`)
	if r := g.call(t, "POST", stat, unary, "{}"); strings.Contains(r.body, "10.0.0.7") {
		t.Errorf("unary: %s", r.body)
	} else if code, _ := r.connect(t); r.status != 500 || code != "internal" {
		t.Errorf("unary: %d %s", r.status, r.body)
	}
	g.proxy = answerWith(200, stream, frame(2, `{"error":{"code":"internal","message":"`+text+`"}}`))
	if r := g.call(t, "POST", start, stream, ""); strings.Contains(r.body, "10.0.0.7") {
		t.Errorf("stream: %s", r.body)
	} else if code, _ := r.endError(t); code != "internal" {
		t.Errorf("stream: %s", r.body)
	}
	theirs := `{"code":"not_found","message":"/tmp/10.0.0.7:80 does not exist"}`
	g.proxy = answerWith(404, unary, theirs)
	if r := g.call(t, "POST", stat, unary, "{}"); r.body != theirs {
		t.Errorf("the client's own text: %s", r.body)
	}
}

func TestAClusterThatIsDownDoesNotAnswerForTheOthers(t *testing.T) {
	dead, _ := routing.ParseEndpoint("http://127.0.0.1:1")
	for name, tc := range map[string]struct {
		there http.HandlerFunc
		want  int
	}{
		"the other knows it":    {answerWith(200, unary, "{}"), 200},
		"the other does not":    {answerWith(404, unary, `{"code":404,"message":"no"}`), 503},
		"the other has trouble": {answerWith(500, unary, `{"code":500,"message":"no"}`), 500},
	} {
		g, other := newRig(t), newRig(t)
		g.cluster.Admin = routing.NewBalancer([]*routing.Endpoint{dead}, nil)
		defer g.cluster.Admin.Close()
		g.registry.say(0, routing.ErrGone)
		g.gateway.opt.Clusters = append(g.gateway.opt.Clusters, other.cluster)
		other.admin = tc.there
		if r := g.send(t, "GET", "/sandboxes/a", "", ""); r.status != tc.want {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// raw is a role that answers every request with the same bytes and then, if
// told to, with a reset.
func raw(t *testing.T, answer string, thenReset bool) *routing.Balancer {
	t.Helper()
	return roleOf(t, func(c net.Conn, in *bufio.Reader) {
		defer c.Close()
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			io.WriteString(c, answer)
			if thenReset {
				c.(*net.TCPConn).SetLinger(0)
				return
			}
		}
	})
}

// What was read in order to be judged, and was cut, can still be told: nothing
// of it was sent. Python 2.34.0 sends a unary call four times when its answer
// is cut.
func TestAnErrorThatIsCutIsStillAnAnswer(t *testing.T) {
	for _, status := range []int{201, 404, 409, 500} {
		g := newRig(t)
		answer := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"code\":", status)
		g.cluster.Admin, g.cluster.Proxy = raw(t, answer, true), raw(t, answer, true)
		r := g.send(t, "POST", "/sandboxes", unary, "{}")
		if code, message := r.e2b(t); code != 500 || !strings.Contains(message, "unknown") || r.header.Get("Should-Retry") != "false" {
			t.Errorf("control %d: %d %s", status, r.status, r.body)
		}
		if status < 300 {
			continue // a success is relayed as it comes
		}
		if code, message := g.call(t, "POST", "/filesystem.Filesystem/MakeDir", unary, "{}").connect(t); code != "aborted" || !strings.Contains(message, "unknown") {
			t.Errorf("unary %d: %s %s", status, code, message)
		}
		if code, _ := g.call(t, "POST", start, stream, "").endError(t); code != "aborted" {
			t.Errorf("stream %d: %s", status, code)
		}
		if code, _ := g.call(t, "GET", "/files?path=x", "", "").e2b(t); code != 500 {
			t.Errorf("files %d: %d", status, code)
		}
	}
}

// Contract checklist 27: from whatever comes.
func TestAStatusThatNoClientKnowsIsNotPassedOn(t *testing.T) {
	for _, status := range []string{"099", "101", "299", "499", "520", "999"} {
		g := newRig(t)
		answer := "HTTP/1.1 " + status + " X\r\nContent-Type: application/json\r\nContent-Length: 25\r\n\r\n{\"code\":" + status + ",\"message\":\"\"}"
		if status == "101" {
			answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nraw"
		}
		g.cluster.Admin, g.cluster.Proxy = raw(t, answer, false), raw(t, answer, false)
		for _, r := range []reply{
			g.send(t, "GET", "/sandboxes/a", "", ""), g.call(t, "GET", "/health", "", ""),
			g.call(t, "POST", stat, unary, "{}"), g.call(t, "GET", "/files?path=x", "", ""),
		} {
			if r.status != 500 && r.status != 503 || !strings.Contains(r.body, `"message":"`) {
				t.Errorf("%s became %d %q", status, r.status, r.body)
			}
		}
		if code, _ := g.call(t, "POST", start, stream, "").endError(t); code != "internal" {
			t.Errorf("%s on a stream: %s", status, code)
		}
	}
}

func TestASuccessWithoutWhatWasAskedForIsNone(t *testing.T) {
	long := `{"status":"Failed","message":"` + strings.Repeat("x", 70<<10) + `"}`
	for name, tc := range map[string]struct {
		method, path string
		status       int
		body         string
		want         int
	}{
		"nothing for a get":        {"GET", "/sandboxes/a", 200, "", 500},
		"nothing for a create":     {"POST", "/sandboxes", 201, "", 500},
		"null for a create":        {"POST", "/sandboxes", 201, "null", 500},
		"no id for a create":       {"POST", "/sandboxes", 201, "{}", 500},
		"a long failure":           {"POST", "/sandboxes/a/timeout", 200, long, 500},
		"nothing for a kill":       {"DELETE", "/sandboxes/a", 200, "", 200},
		"nothing, and none needed": {"DELETE", "/sandboxes/a", 204, "", 204},
		"a long list":              {"GET", "/templates", 200, "[" + strings.Repeat("{},", 30<<10) + "{}]", 200},
	} {
		g := newRig(t)
		g.admin = answerWith(tc.status, unary, tc.body)
		g.proxy = g.admin
		if r := g.send(t, tc.method, tc.path, unary, "{}"); r.status != tc.want || tc.want == 200 && r.body != tc.body {
			t.Errorf("%s: %d %.100s", name, r.status, r.body)
		}
	}
}

func TestOnlyARealHealthAnswerIsHealth(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a failure with 200": answerWith(200, unary, `{"status":"Failed","error":"10.1.1.1:99"}`),
		"a page":             answerWith(200, "text/html", "<html>"),
	} {
		g := newRig(t)
		g.proxy = h
		if r := g.call(t, "GET", "/health", "", ""); r.status != 503 || strings.Contains(r.body, "10.1.1.1") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	g := newRig(t)
	g.proxy = answerWith(200, unary, `{"ok":true}`)
	if r := g.call(t, "GET", "/health", "", ""); r.status != 200 {
		t.Errorf("envd's own 200: %d %s", r.status, r.body)
	}
}

// A web server between here and ROCK compresses what it is asked to.
func TestAnswersThatMustBeReadAreNotAskedForCompressed(t *testing.T) {
	g := newRig(t)
	asked := "-"
	g.proxy = func(w http.ResponseWriter, r *http.Request) { asked = r.Header.Get("Accept-Encoding") }
	g.admin = g.proxy
	for target, want := range map[string]string{"/files?path=x": "gzip, deflate", stat: "", start: "", "/sandboxes/a": ""} {
		g.call(t, "POST", target, unary, "{}", "Accept-Encoding", "gzip, deflate")
		if asked != want {
			t.Errorf("%s: %q", target, asked)
		}
	}
	g.proxy = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		answerWith(404, unary, "\x1f\x8bpacked")(w, nil)
	}
	if r := g.call(t, "GET", "/files?path=x", "", "", "Accept-Encoding", "gzip"); r.status != 404 || r.body != "\x1f\x8bpacked" {
		t.Errorf("%d %q", r.status, r.body)
	}
}

// HTTP/2 lets a client write what HTTP/1.1 would read as two things.
func TestARequestLineIsReadInOneWayOnly(t *testing.T) {
	g := newRig(t)
	for _, r := range []*http.Request{
		{Method: "GET", RequestURI: "/health?x HTTP/1.1"},
		{Method: "GET", RequestURI: "/sandboxes/a HTTP/1.1"},
		{Method: "GET", RequestURI: "/health\x7f"},
		{Method: "GET /init", RequestURI: "/health"},
		{Method: "", RequestURI: "/health"},
		{Method: "TRACE", RequestURI: "/health"},
		{Method: "CONNECT", RequestURI: "/health"},
	} {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		r.URL = &url.URL{Path: path}
		r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
		w := httptest.NewRecorder()
		var out Outcome
		if g.gateway.Serve(w, r, Both, Stranger, &out); out.End != cause.BadRequest || w.Code != 400 {
			t.Errorf("%s %q: %v, %d", r.Method, r.RequestURI, out.End, w.Code)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 {
		t.Errorf("%d upstream calls", n)
	}
}

// Contract checklist 19: nor as trailers.
func TestRequestTrailersEndHere(t *testing.T) {
	g := newRig(t)
	var trailer http.Header
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		trailer = r.Trailer
	}
	c := g.dial(t)
	fmt.Fprintf(c, "POST /files?path=x HTTP/1.1\r\n%sTrailer: X-Api-Key, E2b-Sandbox-Id\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Api-Key: secret\r\nE2b-Sandbox-Id: b\r\n\r\n", routingHeaders)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	if len(trailer) != 0 {
		t.Errorf("%v", trailer)
	}
}

func TestTheResultOfACommandIsKeptWhateverFollowsIt(t *testing.T) {
	long := frame(0, `{"event":{"end":{"exitCode":1,"exited":true,"error":"`+strings.Repeat("x", 5000)+`"}}}`)
	keepalive := frame(0, `{"event":{"keepalive":{}}}`)
	for name, sent := range map[string]string{"a long end": long, "a keepalive after the end": long + keepalive} {
		g := newRig(t)
		g.proxy = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", stream)
			reset(w, sent)
		}
		if _, end := g.call(t, "POST", start, stream, "").frames(t); end != "{}" {
			t.Errorf("%s: %s", name, end)
		}
	}
}

// Contract checklist 31 and 32. Field report D10.
func TestRetryAfterIsPassedOnOnlyWhereItMeansSomething(t *testing.T) {
	for _, tc := range []struct {
		status     int
		sent, want string
	}{{429, "7", "7"}, {503, "2", "2"}, {429, "Wed, 21 Oct 2026 07:28:00 GMT", ""}, {500, "7", ""}, {404, "7", ""}} {
		g := newRig(t)
		g.admin = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", tc.sent)
			w.Header().Set("Location", "http://10.0.0.3/")
			answerWith(tc.status, unary, fmt.Sprintf(`{"code":%d,"message":"m"}`, tc.status))(w, r)
		}
		r := g.send(t, "GET", "/sandboxes/a", "", "")
		if r.header.Get("Retry-After") != tc.want || r.header.Get("Location") != "" || r.status != tc.status {
			t.Errorf("%d %q: %v", tc.status, tc.sent, r.header)
		}
	}
}

func TestARequestWithoutAHostNamesItsNextHop(t *testing.T) {
	g := newRig(t)
	host := ""
	g.proxy = func(_ http.ResponseWriter, r *http.Request) { host = r.Host }
	c := g.dial(t)
	io.WriteString(c, "GET /files?path=x HTTP/1.0\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 49983\r\n\r\n")
	io.Copy(io.Discard, c)
	if host != g.cluster.Proxy.Endpoints()[0].Address {
		t.Errorf("Host: %q", host)
	}
}

// The rest of a small body may never come. Whatever ends a call ends this one.
func TestACallIsNotHeldByABodyThatNeverComes(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		act    func(*rig)
		stall  time.Duration
		code   string
		end    cause.Cause
	}{
		"deadline": {"Connect-Timeout-Ms: 100\r\n", func(*rig) {}, 0, "deadline_exceeded", cause.Deadline},
		"killed": {"", func(g *rig) {
			g.admin = answerWith(204, "", "")
			g.send(t, "DELETE", "/sandboxes/sbx-1", "", "")
		}, 0, "unavailable", cause.SandboxGone},
		"drained": {"", func(g *rig) { go g.gateway.Drain(t.Context(), DrainPlan{}) }, 0, "aborted", cause.Drain},
		"stalled": {"", func(*rig) {}, 200 * time.Millisecond, "invalid_argument", cause.BadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(o *Options) { o.ClientStall = tc.stall })
			c := g.dial(t)
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: sbx-1\r\nE2b-Sandbox-Port: 49983\r\nContent-Type: %s\r\n%sContent-Length: 20\r\n\r\nabc", start, stream, tc.header)
			for len(g.gateway.streams.of("sbx-1")) == 0 && len(g.outcomes) == 0 {
				runtime.Gosched()
			}
			tc.act(g)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if code, text := (reply{body: string(b), err: err}).endError(t); code != tc.code {
				t.Errorf("%s: %s", code, text)
			}
			for out := range g.outcomes {
				if out.Operation.Plane == routing.DataPlane {
					if out.End != tc.end {
						t.Errorf("ended as %v", out.End)
					}
					break
				}
			}
		})
	}
}
