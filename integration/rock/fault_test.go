package rock

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wire sends one raw request and returns the answer's head, everything after it as it stood on the wire, and how it ended.
func (g *rig) wire(srv *Server, request string) (head, body string, err error) {
	g.Helper()
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		g.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		g.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	head, body, _ = strings.Cut(string(b), "\r\n\r\n")
	return head, body, err
}

func get(path, id string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: rock\r\nConnection: close\r\nE2b-Sandbox-Id: " + id + "\r\n\r\n"
}

func post(path, id, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: rock\r\nConnection: close\r\nE2b-Sandbox-Id: %s\r\nConnect-Timeout-Ms: 20000\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s", path, id, len(body), body)
}

// unchunk decodes chunked framing as far as it goes; whole tells whether the final chunk was there.
func unchunk(s string) (body string, whole bool) {
	b, err := io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(strings.NewReader(s))))
	return string(b), err == nil
}

const file = "0123456789abcdef"

func newFaultRig(t *testing.T) *rig {
	g := newRig(t, Options{})
	g.create("f")
	g.upload("f", "?path=/f", [3]string{"file", "f", file})
	return g
}

// A handler may go on for a moment after its answer was cut; a header that nobody wrote must not go out then.
func TestAnAnswerCutBeforeItsHeaderSendsNone(t *testing.T) {
	wire := httptest.NewRecorder()
	x := &exchange{rw: wire, header: http.Header{}, cut: make(chan Kind, 1), declared: -1}
	x.cut <- CleanEnd
	x.cutting.Store(true)
	_, err := x.Write([]byte("late"))
	x.Flush()
	if err == nil || wire.Flushed || wire.Body.Len() > 0 {
		t.Errorf("write: %v, flushed: %v, body %q", err, wire.Flushed, wire.Body)
	}
}

// Many requests look alike but for the OS user that they name.
func TestAFaultHitsTheUserItIsMeantFor(t *testing.T) {
	g := newFaultRig(t)
	armed := g.c.Faults().Add(Fault{Match: Match{User: "victim"}, Kind: Close, At: 3, Times: 1})
	// "victim:", "other:" and "victim:" in base64.
	for _, tc := range []struct {
		user  string
		whole bool
	}{{"other", true}, {"victim", false}, {"victim", true}} {
		credential := base64.StdEncoding.EncodeToString([]byte(tc.user + ":"))
		request := strings.Replace(get("/files?path=/f", "f"), "\r\n\r\n", "\r\nAuthorization: Basic "+credential+"\r\n\r\n", 1)
		if _, body, _ := g.wire(g.proxy, request); strings.Contains(body, file) != tc.whole {
			t.Errorf("%s: %q", tc.user, body)
		}
	}
	if armed.Fired() != 1 {
		t.Errorf("fired %d times", armed.Fired())
	}
}

func TestCutsAreByteExact(t *testing.T) {
	g := newFaultRig(t)
	for _, at := range []int64{0, 1, 7, int64(len(file))} {
		for _, kind := range []Kind{Reset, Close, CleanEnd} {
			armed := g.c.Faults().Add(Fault{Match: Match{Sandbox: "f", Role: Proxy, Method: "GET", Path: "/files"}, Kind: kind, At: at, Times: 1})
			head, wire, err := g.wire(g.proxy, get("/files?path=/f", "f"))
			body, whole := unchunk(wire)
			if !strings.HasPrefix(head, "HTTP/1.1 200 ") || body != file[:at] || whole != (kind == CleanEnd) {
				t.Errorf("%s at %d: got %q %q whole=%v", kind, at, head, wire, whole)
			}
			if reset := errors.Is(err, syscall.ECONNRESET); reset != (kind == Reset) || (err != nil && !reset) {
				t.Errorf("%s at %d: ended with %v", kind, at, err)
			}
			if armed.Fired() != 1 {
				t.Errorf("%s at %d: fired %d", kind, at, armed.Fired())
			}
		}
	}
	if _, wire, _ := g.wire(g.proxy, get("/files?path=/f", "f")); !strings.HasPrefix(wire, "10\r\n"+file) {
		t.Errorf("one-shot faults struck again: %q", wire)
	}
}

func TestCutInsideAnEnvelopeAndCleanEndWithoutEndStream(t *testing.T) {
	g := newFaultRig(t)
	first := len(frames(t, g.start("f", command("echo hi")).body)[0]) - 2 + 5
	g.c.Faults().Add(Fault{Match: Match{Path: "/process.Process/"}, Kind: Reset, At: int64(first) + 3, Times: 1})
	_, wire, err := g.wire(g.proxy, post("/process.Process/Start", "f", command("echo hi")))
	body, whole := unchunk(wire)
	if len(body) != first+3 || whole || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %q %v", body, err)
	}
	g.c.Faults().Add(Fault{Match: Match{Path: "/process.Process/"}, Kind: CleanEnd, At: int64(first), Times: 1})
	r := g.start("f", command("echo hi"))
	if got := frames(t, r.body); r.status != 200 || len(got) != 1 || !strings.Contains(got[0], `"start"`) {
		t.Fatalf("got %q", got)
	}
}

func TestBeforeHeadersTheHandlerHasDoneItsWork(t *testing.T) {
	g := newFaultRig(t)
	f := g.c.Faults()
	for place, done := range map[int64]bool{BeforeHandler: false, BeforeHeaders: true} {
		id := fmt.Sprintf("made%d", -place)
		f.Add(Fault{Match: Match{Role: Admin, Method: "POST"}, Kind: Reset, At: place, Times: 1})
		body := `{"templateID":"t","timeout":60,"metadata":{"ap-sandbox-id":"` + id + `"}}`
		head, _, err := g.wire(g.admin, post("/sandboxes", "", body))
		if head != "" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %q %v", head, err)
		}
		if got := g.c.Sandbox(id) != nil; got != done {
			t.Errorf("at %d: sandbox exists: %v", place, got)
		}
	}
}

func TestAnswerWithReplacesTheAnswer(t *testing.T) {
	g := newFaultRig(t)
	g.c.Faults().Add(Fault{Match: Match{Sandbox: "f", Path: "/health"}, Kind: AnswerWith, At: BeforeHandler, Answer: Answer{Status: 500, Body: "boom"}})
	g.c.Faults().Add(Fault{Match: Match{Sandbox: "f", Method: "DELETE"}, Kind: AnswerWith, At: BeforeHeaders, Answer: Failed("stop failed", "gone")})
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "f").want(t, 500, "boom")
	g.do("DELETE", g.admin.URL()+"/sandboxes/f", "").want(t, 200, `{"error":"gone","message":"stop failed","result":null,"status":"Failed"}`)
	if g.c.Sandbox("f").State() != Deleted {
		t.Fatal("BeforeHeaders comes after the handler's work")
	}
}

func TestLiesAboutContentLength(t *testing.T) {
	g := newFaultRig(t)
	m := Match{Method: "GET", Path: "/sandboxes/f"}
	honest := g.do("GET", g.admin.URL()+"/sandboxes/f", "").body
	for _, add := range []int64{5, -5} {
		g.c.Faults().Add(Fault{Match: m, Kind: Lie, Add: add, Times: 1})
		head, body, err := g.wire(g.admin, get("/sandboxes/f", ""))
		if !strings.Contains(head, fmt.Sprintf("Content-Length: %d\r\n", len(honest)+int(add))) || body != honest || err != nil {
			t.Errorf("%+d: got %q %q %v", add, head, body, err)
		}
	}
	g.c.Faults().Add(Fault{Match: Match{Path: "/files"}, Kind: Lie, Add: 20, Times: 1})
	head, body, _ := g.wire(g.proxy, get("/files?path=/f", "f"))
	if !strings.Contains(head, "Content-Length: 20") || strings.Contains(head, "chunked") || body != file {
		t.Errorf("stream: got %q %q", head, body)
	}
}

func TestLieAndCutTogether(t *testing.T) {
	g := newFaultRig(t)
	g.c.Faults().Add(Fault{Match: Match{Path: "/files"}, Kind: Lie, Add: 16, Times: 1})
	g.c.Faults().Add(Fault{Match: Match{Path: "/files"}, Kind: Close, At: 10, Times: 1})
	if head, body, err := g.wire(g.proxy, get("/files?path=/f", "f")); !strings.Contains(head, "Content-Length: 16") || body != file[:10] || err != nil {
		t.Errorf("got %q %q %v", head, body, err)
	}
}

func TestDelaysComeBeforeHeadersAndBetweenBytes(t *testing.T) {
	g := newFaultRig(t)
	m := Match{Path: "/files", Method: "GET"}
	const step = 20 * time.Millisecond
	for _, c := range []struct {
		fault Fault
		least time.Duration
		fired int64
	}{
		{Fault{Match: m, Kind: Delay, At: BeforeHandler, Wait: step}, step, 1},
		{Fault{Match: m, Kind: Delay, At: BeforeHeaders, Wait: step}, step, 1},
		{Fault{Match: m, Kind: Delay, At: 5, Wait: step}, step, 1},
		{Fault{Match: m, Kind: Delay, At: 4, Every: 4, Wait: step}, 4 * step, 4},
		{Fault{Match: m, Kind: Delay, At: 4, Every: 4, Wait: step, Times: 2}, 2 * step, 2},
	} {
		armed := g.c.Faults().Add(c.fault)
		begun := time.Now()
		g.download("f", "?path=/f").want(t, 200, file)
		if took := time.Since(begun); took < c.least || armed.Fired() != c.fired {
			t.Errorf("%+v: took %s, fired %d", c.fault, took, armed.Fired())
		}
		armed.Disarm()
	}
}

func TestDelayPushesWhatCameBefore(t *testing.T) {
	g := newFaultRig(t)
	g.c.Faults().Add(Fault{Match: Match{Path: "/files"}, Kind: Delay, At: 5, Wait: time.Hour})
	resp := g.open("GET", g.proxy.URL()+"/files?path=/f", "", sandboxHeader, "f")
	defer func() { _ = resp.Body.Close() }()
	five := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, five); err != nil || string(five) != file[:5] {
		t.Fatalf("got %q %v", five, err)
	}
	g.c.Faults().Clear() // lets it go on
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(rest) != file[5:] {
		t.Fatalf("got %q %v", rest, err)
	}
}

func TestSilenceKeepsTheConnectionUntilCleared(t *testing.T) {
	g := newFaultRig(t)
	for _, at := range []int64{BeforeHandler, 5} {
		g.c.Faults().Add(Fault{Match: Match{Path: "/files"}, Kind: Silence, At: at})
		conn, err := net.Dial("tcp", g.proxy.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, get("/files?path=/f", "f")); err != nil {
			t.Fatal(err)
		}
		if at >= 0 {
			until(t, "five bytes", func() bool { rs := g.c.Log().Requests(Match{Path: "/files", Method: "GET"}); return len(rs) > 0 })
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			five := make([]byte, 5)
			if _, err := io.ReadFull(resp.Body, five); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
			t.Fatalf("at %d: got %d bytes, %v", at, n, err)
		}
		until(t, "silent", func() bool { return g.c.Faults().Live(Match{Path: "/files"}) == 1 })
		g.c.Faults().Clear()
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
			t.Fatalf("at %d: got %d bytes, %v after Clear", at, n, err)
		}
		_ = conn.Close()
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestSilenceEndsWhenTheClientLeavesEvenWithItsBodyUnread(t *testing.T) {
	g := newFaultRig(t)
	g.c.Faults().Add(Fault{Match: Match{Path: "/process"}, Kind: Silence, At: BeforeHandler})
	conn, err := net.Dial("tcp", g.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, post("/process.Process/Start", "f", command("true"))); err != nil {
		t.Fatal(err)
	}
	until(t, "arrived", func() bool { return g.c.Faults().Live(Match{Path: "/process"}) == 1 })
	_ = conn.Close()
	until(t, "noticed", func() bool { return g.c.Faults().Live(Match{Path: "/process"}) == 0 })
}

func TestHalfCloseSendsFINAndStaysReadable(t *testing.T) {
	g := newFaultRig(t)
	g.c.Faults().Add(Fault{Match: Match{Path: "/files"}, Kind: HalfClose, At: 5})
	conn, err := net.Dial("tcp", g.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, get("/files?path=/f", "f")); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(b, []byte(file[:5])) || bytes.Contains(b, []byte(file[:6])) {
		t.Fatalf("got %q %v", b, err)
	}
	if g.c.Faults().Live(Match{Path: "/files"}) != 1 {
		t.Fatal("the server closed its side of reading too")
	}
}

func TestFireCutsWhatIsRunningNow(t *testing.T) {
	g := newFaultRig(t)
	resp := g.open("POST", g.proxy.URL()+"/process.Process/Start", command("sleep 1000"), sandboxHeader, "f", "Connect-Timeout-Ms", "20000")
	defer func() { _ = resp.Body.Close() }()
	if n := g.c.Faults().Fire(Match{Sandbox: "other"}, Reset); n != 0 {
		t.Fatalf("cut %d", n)
	}
	if n := g.c.Faults().Fire(Match{Sandbox: "f"}, Reset); n != 1 {
		t.Fatalf("cut %d", n)
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v", err)
	}
	if g.c.Commands() != 1 {
		t.Fatal("the command must go on")
	}
}

func TestFaultsStrikeOnlyWhatMatches(t *testing.T) {
	g := newFaultRig(t)
	second, err := g.c.Serve(Proxy, "")
	if err != nil {
		t.Fatal(err)
	}
	armed := g.c.Faults().Add(Fault{Match: Match{Address: second.Addr()}, Kind: AnswerWith, At: BeforeHandler, Answer: Answer{Status: 418}})
	for _, srv := range []*Server{g.proxy, second, second} {
		want := 204
		if srv == second {
			want = 418
		}
		if r := g.do("GET", srv.URL()+"/health", "", sandboxHeader, "f"); r.status != want {
			t.Errorf("%s: got %d, want %d", srv.Addr(), r.status, want)
		}
	}
	if armed.Fired() != 2 {
		t.Errorf("fired %d", armed.Fired())
	}
	armed.Disarm()
	if r := g.do("GET", second.URL()+"/health", "", sandboxHeader, "f"); r.status != 204 {
		t.Errorf("disarmed: got %d", r.status)
	}
}

func TestClosedServerRefusesAndItsAddressCanBeServedAgain(t *testing.T) {
	g := newRig(t, Options{})
	g.do("GET", g.admin.URL()+"/", "")
	if g.admin.Conns() != 1 {
		t.Fatalf("got %d connections", g.admin.Conns())
	}
	g.admin.ResetAll()
	until(t, "reset", func() bool { return g.admin.Conns() == 0 })
	addr := g.admin.Addr()
	if err := g.admin.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v", err)
	}
	again, err := g.c.Serve(Admin, addr)
	if err != nil {
		t.Fatal(err)
	}
	g.do("GET", again.URL()+"/", "").want(t, 200, `{"message":"hello, ROCK!"}`)
}

func TestLogKeepsTheTargetExactlyAndTheBodysDigest(t *testing.T) {
	g := newRig(t, Options{LogSize: 3})
	s := g.create("log")
	target := "/files?path=/a%20b+%C3%bc&x=%2F"
	kind, body := form([3]string{"file", "x", "payload"})
	g.do("POST", g.proxy.URL()+target, body, "Content-Type", kind, sandboxHeader, s.ID, "X-Test", "v")
	rs, err := g.c.Log().Await(t.Context(), Match{Role: Proxy}, 1)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(body))
	r := rs[0]
	if r.Target != target || r.Method != "POST" || r.Sandbox != "log" || r.Address != g.proxy.Addr() || r.Header.Get("X-Test") != "v" || r.Status != 200 ||
		r.BodyBytes != int64(len(body)) || r.BodySHA256 != hex.EncodeToString(sum[:]) || r.Host != g.proxy.Addr() || r.Sent == 0 {
		t.Fatalf("got %+v", r)
	}
	for range 5 {
		g.do("GET", g.admin.URL()+"/", "")
	}
	if n := len(g.c.Log().Requests(Match{})); n != 3 {
		t.Fatalf("the log keeps %d", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.c.Log().Await(ctx, Match{Path: "/never"}, 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	g.c.Log().Reset()
	if n := len(g.c.Log().Requests(Match{})); n != 0 {
		t.Fatalf("left %d", n)
	}
}
