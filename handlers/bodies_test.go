package handlers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/heap"
	"github.com/caddy-e2b/gateway/routing"
)

// Contract checklist 48: a dial that fails is told in the protocol. Field report A10.
func TestACommandThatReachesNobodyEndsInTheProtocol(t *testing.T) {
	g := newRig(t)
	dead, _ := routing.ParseEndpoint("http://127.0.0.1:1")
	g.cluster.Proxy = routing.NewBalancer([]*routing.Endpoint{dead}, nil)
	defer g.cluster.Proxy.Close()
	if code, message := g.call(t, "POST", start, stream, "").endError(t); code != "aborted" || !strings.Contains(message, "nothing was done") {
		t.Errorf("%s %s", code, message)
	}
	g.wantEnd(t, cause.ClusterUnreachable)
}

// Contract checklist 61, field report H01, decided differently (docs/decisions.md): 500, because
// 502 would call a live sandbox gone. The connection to the client stays.
// Field report A11.
func TestAUnaryCallThatGetsNoAnswerIsToldSo(t *testing.T) {
	g := newRig(t)
	g.proxy = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	r := g.call(t, "POST", "/process.Process/SendInput", unary, "{}")
	if code, message := r.connect(t); r.status != 500 || code != "aborted" || !strings.Contains(message, "may still be running") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := g.upstreamHits.Load(); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
	g.wantEnd(t, cause.UpstreamReset)
	g.registry.say(0, routing.ErrGone)
	if code, _ := g.call(t, "POST", "/process.Process/SendInput", unary, "{}").connect(t); code != "unavailable" {
		t.Errorf("gone: %s", code)
	}
}

// Contract checklist 38: what the gateway does not know passes as it is.
func TestUnknownPartsOfAStreamPassUnchanged(t *testing.T) {
	g := newRig(t)
	want := frame(0, `{"event":{"later":{"x":1}},"resume":7}`) + frame(2, `{"error":{"code":"invalid_argument","message":"m","details":[{"type":"t","value":"dg"}]},"metadata":{"k":["v"]}}`)
	g.proxy = answerWith(200, stream, want)
	if r := g.call(t, "POST", start, stream, ""); r.body != want || r.err != nil {
		t.Errorf("%q, %v", r.body, r.err)
	}
}

// Contract checklist 63 and field report B06.
func TestCompressedBodiesAreNobodysBusiness(t *testing.T) {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	io.WriteString(zw, "content")
	zw.Close()
	g := newRig(t)
	got, encoding, accept := "", "", ""
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, encoding, accept = string(b), r.Header.Get("Content-Encoding"), r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", fmt.Sprint(packed.Len()))
		w.Write(packed.Bytes())
	}
	for _, takes := range []string{"gzip", "identity", ""} {
		c := g.dial(t) // net/http would ask for gzip by itself
		asks := "Accept-Encoding: " + takes + "\r\n"
		if takes == "" {
			asks = ""
		}
		fmt.Fprintf(c, "POST /files?path=x HTTP/1.1\r\n%s%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", routingHeaders, asks, packed.Len(), packed.String())
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got != packed.String() || encoding != "gzip" || accept != takes {
			t.Errorf("upload: %q %q %q", got, encoding, accept)
		}
		if body := read(t, resp.Body, packed.Len()); body != packed.String() || resp.Header.Get("Content-Encoding") != "gzip" || resp.ContentLength != int64(packed.Len()) {
			t.Errorf("download: %q %v", body, resp.Header)
		}
	}
}

// Field report J07: a known length stays known, an unknown one stays unknown.
func TestTheFramingOfABodyIsKept(t *testing.T) {
	g := newRig(t)
	var length int64
	var encoding []string
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		length, encoding = r.ContentLength, r.TransferEncoding
		io.Copy(io.Discard, r.Body)
	}
	for _, tc := range []struct {
		body   io.Reader
		length int64
	}{
		{strings.NewReader(""), 0},
		{strings.NewReader("x"), 1},
		{bytes.NewReader(make([]byte, 1<<20)), 1 << 20},
		{io.MultiReader(strings.NewReader("x")), -1},
		{io.MultiReader(bytes.NewReader(make([]byte, 1<<20))), -1},
	} {
		r, _ := http.NewRequest("POST", g.URL+"/files?path=x", tc.body)
		r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}, "Content-Type": {"application/octet-stream"}}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if length != tc.length || (len(encoding) == 1) != (tc.length < 0) {
			t.Errorf("length %d arrived as %d, %v", tc.length, length, encoding)
		}
	}
}

// zeros is an endless body that counts what was taken of it.
type zeros struct {
	left  int64
	taken atomic.Int64
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	z.left -= n
	z.taken.Add(n)
	return int(n), nil
}

// Contract checklist 62, field report J06: bounded memory, whole bytes.
func TestABigUploadAndDownloadNeedLittleMemory(t *testing.T) {
	const size = 256 << 20
	g := newRig(t)
	sum := sha256.New()
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		sum.Reset()
		n, _ := io.Copy(sum, r.Body)
		w.Header().Set("X-Read", fmt.Sprint(n))
		io.Copy(w, &zeros{left: size})
	}
	grown := heap.Watch()
	r, _ := http.NewRequest("POST", g.URL+"/files?path=x", io.NopCloser(&zeros{left: size}))
	r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || n != size || resp.Header.Get("X-Read") != fmt.Sprint(size) {
		t.Fatalf("%d bytes down, %s up, %v", n, resp.Header.Get("X-Read"), err)
	}
	if grown := grown(); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// Contract checklist 56: a client that does not read stops the sandbox, not
// the gateway's memory.
func TestASlowClientHoldsTheUpstreamBack(t *testing.T) {
	g := newRig(t)
	source := &zeros{left: 1 << 40}
	stalled := make(chan struct{})
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", stream)
		message := []byte(frame(0, strings.Repeat("x", 1<<10)))
		rc := http.NewResponseController(w)
		for {
			rc.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := w.Write(message); err != nil {
				close(stalled)
				return
			}
			source.taken.Add(int64(len(message)))
		}
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 49983\r\nContent-Length: 0\r\n\r\n", start, stream)
	select {
	case <-stalled:
	case <-time.After(20 * time.Second):
		t.Fatalf("the upstream was never held back, after %d MiB", source.taken.Load()>>20)
	}
	// Both connections' socket buffers, which the system sizes, and ours.
	if n := source.taken.Load(); n > 64<<20 {
		t.Errorf("%d MiB were taken from an upstream whose client reads nothing", n>>20)
	}
}

// Field report I04: an answer before the end of an upload reaches the client.
func TestAnEarlyAnswerToAnUploadIsDelivered(t *testing.T) {
	g := newRig(t)
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1<<20)
		w.Header().Set("Connection", "close")
		answerWith(507, unary, `{"code":507,"message":"no space left"}`)(w, r)
	}
	r, _ := http.NewRequest("POST", g.URL+"/files?path=x", io.NopCloser(&zeros{left: 64 << 20}))
	r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 507 || !strings.Contains(string(b), "no space left") {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}

// Field report H12 and J10.
func TestMethodsKeepTheirMeaning(t *testing.T) {
	g := newRig(t)
	got := ""
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = r.Method + " " + string(b) + " " + r.Header.Get("Range")
		w.Header().Set("Content-Length", "7")
		if r.Method != "HEAD" {
			io.WriteString(w, "content")
		}
	}
	if r := g.call(t, "DELETE", "/files?path=x", unary, `{"a":1}`); got != `DELETE {"a":1} ` || r.body != "content" {
		t.Errorf("%q %q", got, r.body)
	}
	if r := g.call(t, "HEAD", "/files?path=x", "", ""); got != "HEAD  " || r.header.Get("Content-Length") != "7" || r.body != "" {
		t.Errorf("%q %v", got, r.header)
	}
	g.proxy = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", unary)
		w.WriteHeader(404)
	}
	if r := g.call(t, "HEAD", "/files?path=x", "", ""); r.status != 404 {
		t.Errorf("HEAD of nothing: %d", r.status)
	}
	g = newRig(t)
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 1-7/9")
		w.WriteHeader(206)
		io.WriteString(w, "content")
	}
	if r := g.call(t, "GET", "/files?path=x", "", "", "Range", "bytes=1-7"); r.status != 206 || r.header.Get("Content-Range") != "bytes 1-7/9" || r.body != "content" {
		t.Errorf("%d %v", r.status, r.header)
	}
}

// Contract checklist 69, field report D06.
func TestOnlyAPersonsBrowserGetsAPage(t *testing.T) {
	g := newRig(t)
	g.registry.say(0, routing.ErrGone)
	agent := []string{"User-Agent", "Mozilla/5.0 (X11) Chrome/150", "Accept", "text/html,*/*"}
	for name, tc := range map[string]struct {
		headers []string
		page    bool
	}{
		"navigation":       {append([]string{"Sec-Fetch-Mode", "navigate"}, agent...), true},
		"a script":         {append([]string{"Sec-Fetch-Mode", "cors"}, agent...), false},
		"an old browser":   {agent, true},
		"an old script":    {append([]string{"X-Requested-With", "XMLHttpRequest"}, agent...), false},
		"a browser's JSON": {[]string{"User-Agent", "Mozilla/5.0", "Accept", "application/json"}, false},
		"an SDK":           {[]string{"User-Agent", "e2b-js-sdk/2.51.0", "Accept", "*/*", "Sec-Fetch-Mode", "cors"}, false},
	} {
		r := g.call(t, "GET", "/files?path=x", "", "", tc.headers...)
		if page := strings.HasPrefix(r.header.Get("Content-Type"), "text/html"); page != tc.page || r.status != 502 {
			t.Errorf("%s: %d %v", name, r.status, r.header)
		}
	}
}

// Field report H09: a client that waits for permission to send gets it once,
// and only when somebody wants its body.
func TestAClientThatAsksFirstIsAnswered(t *testing.T) {
	g := newRig(t)
	refuse := false
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		if refuse {
			answerWith(507, unary, `{"code":507,"message":"full"}`)(w, r)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}
	client := &http.Transport{ExpectContinueTimeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for _, size := range []int64{100, 1 << 20} {
		for _, refuse = range []bool{false, true} {
			body := &zeros{left: size}
			r, _ := http.NewRequest("POST", g.URL+"/files?path=x", io.NopCloser(body))
			r.ContentLength = size
			r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}, "Expect": {"100-continue"}}
			resp, err := client.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case !refuse && string(b) != fmt.Sprint(size):
				t.Errorf("%d bytes: %d %s", size, resp.StatusCode, b)
			case refuse && resp.StatusCode != 507:
				t.Errorf("refused: %d %s", resp.StatusCode, b)
			case refuse && size > g.gateway.opt.BufferBody && body.taken.Load() != 0:
				t.Errorf("%d bytes were sent although nobody wanted them", body.taken.Load())
			}
		}
	}
}

// Field report H13.
func TestRepeatedResponseHeadersStayApart(t *testing.T) {
	g := newRig(t)
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Set-Cookie"] = []string{"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "b=2"}
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Server", "uvicorn")
	}
	r := g.call(t, "GET", "/files?path=x", "", "")
	if len(r.header["Set-Cookie"]) != 2 || len(r.header["Date"]) != 1 || len(r.header["Server"]) != 1 || r.header.Get("Keep-Alive") != "" {
		t.Errorf("%v", r.header)
	}
}

func FuzzUpstreamErrors(f *testing.F) {
	f.Add(404, "application/json", `{"code":"not_found","message":"sandbox is not running"}`)
	f.Add(422, "application/json", `{"detail":[{"loc":["body","x"],"msg":"m"}]}`)
	f.Add(200, "application/json", `{"status":"Failed","error":"10.0.0.1:22555","result":{"code":4000}}`)
	f.Add(500, "text/html", "Traceback")
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		resp := func() *http.Response {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
		}
		r := resp()
		e, err := readUpstreamError(r)
		if err != nil {
			t.Fatal(err)
		}
		if e.connectCode(status) == "" {
			t.Fatal("no code")
		}
		if back, err := io.ReadAll(r.Body); err != nil || string(back) != body {
			t.Fatalf("the body was %q and is %q, %v", body, back, err)
		}
		failure, converted := convertControl(routing.Operation{Name: "Sandbox.create"}, resp(), []byte(body), false)
		if converted && internals.MatchString(failure.Message) {
			t.Fatalf("%q shows %q", body, failure.Message)
		}
		for _, classify := range []func([]byte) envelope.Class{classifyProcessJSON, classifyProcess, classifyWatchJSON, classifyWatch} {
			classify([]byte(body))
		}
	})
}
