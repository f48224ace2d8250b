package module_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/routing"
)

// scriptedUpstream answers each request on a connection of its own with what
// the request's path names, and then does to the connection what that says.
type scriptedUpstream struct {
	net.Listener
	gone chan struct{} // a connection was closed by the other side
}

// act is an answer and what becomes of its connection.
type act struct {
	answer string
	reset  bool // RST, otherwise FIN
	hold   bool // wait until the other side closes
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n"

var (
	startEvent = envelope.Append(nil, 0, []byte(`{"event":{"start":{"pid":7}}}`))
	endEvent   = envelope.Append(nil, 0, []byte(`{"event":{"end":{"exited":true}}}`))
	endStream  = envelope.Append(nil, envelope.FlagEndStream, []byte(`{}`))
)

func chunked(frames ...[]byte) string {
	b := bytes.Join(frames, nil)
	return fmt.Sprintf("%x\r\n%s\r\n", len(b), b)
}

const lastChunk = "0\r\n\r\n"

func lost(text string) string {
	return string(envelope.Append(nil, envelope.FlagEndStream, []byte(`{"error":{"code":"aborted","message":"`+text+`"}}`)))
}

const (
	resetText = "The connection to sandbox s1 was lost; the sandbox may still be running, but the outcome of this call is unknown"
	eofText   = "The answer of sandbox s1 ended before it was complete; the sandbox may still be running, but the outcome of this call is unknown"
)

// acts are the endings that a streaming call may meet, and the body that its
// client must get.
var acts = map[string]struct {
	act
	want string
}{
	"well":           {act{answer: streamHead + chunked(startEvent, endEvent, endStream) + lastChunk}, string(startEvent) + string(endEvent) + string(endStream)},
	"reset":          {act{answer: streamHead + chunked(startEvent), reset: true}, string(startEvent) + lost(resetText)},
	"fin":            {act{answer: streamHead + chunked(startEvent)}, string(startEvent) + lost(resetText)},
	"noEndStream":    {act{answer: streamHead + chunked(startEvent) + lastChunk}, string(startEvent) + lost(eofText)},
	"halfEnvelope":   {act{answer: streamHead + chunked(startEvent, endEvent[:9]), reset: true}, string(startEvent) + lost(resetText)},
	"beforeHeaders":  {act{reset: true}, lost(resetText)},
	"finInHead":      {act{answer: "HTTP/1.1 200 OK\r\nContent-"}, lost(resetText)},
	"afterHeaders":   {act{answer: streamHead, reset: true}, lost(resetText)},
	"afterEnd":       {act{answer: streamHead + chunked(startEvent, endEvent), reset: true}, string(startEvent) + string(endEvent) + string(endStream)},
	"afterEndStream": {act{answer: streamHead + chunked(startEvent, endStream), reset: true}, string(startEvent) + string(endStream)},
	"twoEndStreams":  {act{answer: streamHead + chunked(startEvent, endStream, endStream) + lastChunk}, string(startEvent) + string(endStream)},
	"heldOpen":       {act{answer: streamHead + chunked(startEvent, endStream), hold: true}, string(startEvent) + string(endStream)},
	"closeDelimited": {act{answer: "HTTP/1.0 200 OK\r\nContent-Type: application/connect+json\r\n\r\n" + string(startEvent)}, string(startEvent) + lost(eofText)},
	"invalidFrame": {act{answer: streamHead + chunked(startEvent, envelope.Append(nil, 4, nil)) + lastChunk},
		string(startEvent) + streamError("internal", "The answer for sandbox s1 could not be understood; the outcome of this call is unknown")},
	"notFound": {act{answer: answered("404 Not Found", "application/json", `{"code":"not_found","message":"no such process"}`)},
		streamError("not_found", "no such process")},
	"numbered": {act{answer: answered("401 Unauthorized", "application/json", `{"code":401,"message":"bad token"}`)},
		streamError("unauthenticated", "bad token")},
	"internals": {act{answer: answered("500 Internal Server Error", "application/json", `{"code":"internal","message":"dial 10.0.0.7:49983"}`)},
		streamError("internal", "The answer for sandbox s1 could not be understood; the outcome of this call is unknown")},
	"html": {act{answer: answered("502 Bad Gateway", "text/html", "<h1>502</h1>")},
		streamError("internal", "The answer for sandbox s1 could not be understood; the outcome of this call is unknown")},
	"wrongType": {act{answer: answered("200 OK", "application/json", "{}")},
		streamError("internal", "The answer for sandbox s1 could not be understood; the outcome of this call is unknown")},
}

func answered(status, contentType, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, contentType, len(body), body)
}

func streamError(code, message string) string {
	return string(envelope.Append(nil, envelope.FlagEndStream, fmt.Appendf(nil, `{"error":{"code":%q,"message":%q}}`, code, message)))
}

func newScriptedUpstream(t *testing.T) *scriptedUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &scriptedUpstream{l, make(chan struct{}, 100)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c.(*net.TCPConn))
		}
	}()
	return u
}

// plainActs are answers that must pass as they are.
var plainActs = map[string]act{
	"file":    {answer: answered("200 OK", "application/octet-stream", "whole")},
	"cutFile": {answer: "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 100\r\n\r\nhalf", reset: true},
	"cutSSE":  {answer: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked([]byte("data: a\n\n")), reset: true},
	"teapot":  {answer: answered("418 I'm a teapot", "application/json", `{"code":418}`)},
	"silent":  {answer: streamHead + chunked(startEvent), hold: true},
}

func (u *scriptedUpstream) serve(c *net.TCPConn) {
	defer c.Close()
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	name := r.Header.Get("Act")
	do, ok := plainActs[name]
	if !ok {
		do = acts[name].act
	}
	_, _ = io.WriteString(c, do.answer)
	if do.hold {
		_, _ = in.Peek(1)
		u.gone <- struct{}{}
	}
	if do.reset {
		// A reset must not overtake what was sent before it.
		settled(c)
		_ = c.SetLinger(0)
	}
}

// settled waits until the other side's kernel has what was sent.
func settled(c *net.TCPConn) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for unacknowledged(c) > 0 {
		<-poll.C
	}
}

// unacknowledged is how many bytes the other side has not confirmed yet.
func unacknowledged(c *net.TCPConn) (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return n
}

func stockSite(t *testing.T, transport harness.Transport, upstreams ...string) *harness.Gateway {
	t.Helper()
	return inprocess.Start(t, fmt.Sprintf(`:80 {
	reverse_proxy %s {
		lb_policy first
		lb_retries 1
		fail_duration 10s
		request_buffers 64KiB
		transport e2b {
			keepalive off # the upstream closes its connections unannounced
		}
	}
}
`, strings.Join(upstreams, " ")), transport)
}

func streamingCall(ctx context.Context, t *testing.T, base, name string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/process.Process/Start", strings.NewReader("\x00\x00\x00\x00\x02{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/connect+json")
	r.Header.Set(routing.HeaderSandboxID, "s1")
	r.Header.Set("Act", name)
	return r
}

// The streams of a stock reverse_proxy end well with one line. Field reports A01, A03,
// A04, A05, A07 and A09.
func TestStreamsThroughReverseProxyEndInTheProtocol(t *testing.T) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			u := newScriptedUpstream(t)
			g := stockSite(t, transport, u.Addr().String())
			client := g.Client()
			for name, tc := range acts {
				resp, err := client.Do(streamingCall(t.Context(), t, g.URL, name))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(got) != tc.want || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/connect+json" {
					t.Errorf("%s: %s %q, %v\ngot  %q\nwant %q", name, resp.Status, resp.Header.Get("Content-Type"), err, got, tc.want)
				}
			}
		})
	}
}

func TestWithoutASandboxIDTheTextNamesNone(t *testing.T) {
	u := newScriptedUpstream(t)
	g := stockSite(t, harness.Cleartext, u.Addr().String())
	for _, ids := range [][]string{nil, {"../x"}, {"s1", "s2"}} {
		r := streamingCall(t.Context(), t, g.URL, "reset")
		r.Header[routing.HeaderSandboxID] = ids
		resp, err := g.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := string(startEvent) + lost(strings.Replace(resetText, " s1", "", 1)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", ids, got, err)
		}
	}
}

// Contract checklist 55, field report A02: what is no stream is not repaired.
func TestEverythingElseThroughTheTransportIsUntouched(t *testing.T) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			u := newScriptedUpstream(t)
			g := stockSite(t, transport, u.Addr().String())
			for _, tc := range []struct {
				name, body string
				status     int
				cut        bool
			}{
				{"file", "whole", 200, false},
				{"cutFile", "half", 200, true},
				{"cutSSE", "data: a\n\n", 200, true},
				{"teapot", `{"code":418}`, 418, false},
			} {
				r := streamingCall(t.Context(), t, g.URL, tc.name)
				r.Header.Set("Content-Type", "application/json")
				resp, err := g.Client().Do(r)
				if err != nil {
					t.Errorf("%s: %v", tc.name, err)
					continue
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(got) != tc.body || resp.StatusCode != tc.status || (err != nil) != tc.cut {
					t.Errorf("%s: %d %q, %v", tc.name, resp.StatusCode, got, err)
				}
			}
		})
	}
}

func TestReverseProxyStillTriesAnotherUpstream(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	u := newScriptedUpstream(t)
	g := stockSite(t, harness.Cleartext, dead.Addr().String(), u.Addr().String())
	resp, err := g.Client().Do(streamingCall(t.Context(), t, g.URL, "well"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != acts["well"].want {
		t.Fatalf("%s %q, %v", resp.Status, got, err)
	}
}

// Contract checklist 41, field report A13.
func TestAClientThatLeavesCancelsTheUpstream(t *testing.T) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			u := newScriptedUpstream(t)
			g := stockSite(t, transport, u.Addr().String())
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := g.Client().Do(streamingCall(ctx, t, g.URL, "silent"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, len(startEvent))); err != nil {
				t.Fatal(err)
			}
			cancel()
			select {
			case <-u.gone:
			case <-time.After(5 * time.Second):
				t.Fatal("the upstream still has its connection")
			}
		})
	}
}
