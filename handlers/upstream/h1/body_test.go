package h1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// unknown makes a request with a body of which nobody knows the length.
func unknown(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://a/", io.NopCloser(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Clients of HTTP/2 end a GET in a frame of its own, and net/http knows no length then.
// No server expects a body of a GET.
func TestABodyThatIsNothingIsNotSentWhereNoneIsExpected(t *testing.T) {
	for _, tc := range []struct{ method, body, want string }{
		{"GET", "", ""},
		{"DELETE", "", ""},
		{"GET", "x", "Transfer-Encoding: chunked"},
		{"POST", "", "Transfer-Encoding: chunked"},
	} {
		conn := newFake(whole(empty), nil)
		c, _ := client(t, nil, func() *fakeConn { return conn })
		begin(t, c, unknown(t, tc.method, strings.NewReader(tc.body))).Body.Close()
		body, err := parse(conn.all)
		if string(body) != tc.body || err != nil || strings.Contains(string(conn.all), "Transfer-Encoding") != (tc.want != "") {
			t.Errorf("%s of %q became %q", tc.method, tc.body, conn.all)
		}
	}
}

// Whoever is told that a dial has failed sends the request elsewhere, with the body as
// it was.
func TestABodyThatWasBegunIsNoFailedDials(t *testing.T) {
	failed := errors.New("dial")
	for method, want := range map[string]error{"DELETE": errBodyBegun, "POST": failed} {
		dials := 0
		c := New(Config{IdleTimeout: time.Minute, MaxIdlePerKey: 1, MaxIdle: 1, Dial: func(context.Context, string) (Conn, error) {
			if dials++; dials > 1 {
				return nil, failed
			}
			return &failingConn{newFake(whole(hello), nil), 0}, nil
		}})
		t.Cleanup(c.CloseIdle)
		finish(t, begin(t, c, get(t, "a")))
		body := strings.NewReader("body")
		if _, err := c.RoundTrip(unknown(t, method, body)); !errors.Is(err, want) {
			t.Errorf("%s: %v, with %d bytes of the body left", method, err, body.Len())
		}
	}
}

func TestABodyThatTakesItsTimeIsABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newFake(whole(empty), nil)
		c, _ := client(t, nil, func() *fakeConn { return conn })
		source, into := io.Pipe()
		go func() {
			time.Sleep(2 * probeWait)
			into.Write([]byte("late"))
			into.Close()
		}()
		begin(t, c, unknown(t, "GET", source)).Body.Close()
		if body, err := parse(conn.all); string(body) != "late" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

func TestACallMayEndWhileItsBodyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newFake(whole(empty), nil)
		c, _ := client(t, nil, func() *fakeConn { return conn })
		source, into := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(probeWait/2, cancel)
		_, err := c.RoundTrip(unknown(t, "GET", source).WithContext(ctx))
		if !errors.Is(err, context.Canceled) || conn.writes > 0 {
			t.Errorf("%v, after %d writes", err, conn.writes)
		}
		into.Close()
	})
}

// fullConn is one whose kernel takes some bytes, and the rest when the other side
// reads again.
type fullConn struct {
	*fakeConn
	takes int
	reads chan struct{}
}

func (c *fullConn) WriteNow(p []byte) (int, error) { return c.Write(p[:min(c.takes, len(p))]) }
func (c *fullConn) Ask(p []byte) (int, error)      { return c.WriteNow(p) }

func (c *fullConn) Write(p []byte) (int, error) {
	if c.writes > 0 {
		<-c.reads
	}
	return c.fakeConn.Write(p)
}

func full(t *testing.T, conn *fullConn) *Client {
	c := New(Config{IdleTimeout: time.Minute, MaxIdlePerKey: 1, MaxIdle: 1, Dial: func(context.Context, string) (Conn, error) { return conn, nil }})
	t.Cleanup(c.CloseIdle)
	return c
}

func TestWhatTheKernelDoesNotTakeIsSentLater(t *testing.T) {
	body := strings.Repeat("0123456789", 1000)
	for _, takes := range []int{0, 10, 3000} {
		conn := &fullConn{newFake(whole(hello), nil), takes, make(chan struct{})}
		close(conn.reads)
		c := full(t, conn)
		finish(t, begin(t, c, post(t, "a", body)))
		if got, err := parse(conn.all); string(got) != body || err != nil {
			t.Errorf("%d bytes of %d arrived, %v", len(got), len(body), err)
		}
	}
}

// A server that has said no need not read what it does not want.
func TestAnAnswerIsHeardThoughTheServerTakesNothing(t *testing.T) {
	no := func(written []byte) []byte {
		if bytes.Contains(written, []byte("\r\n\r\n")) {
			return []byte(hello)
		}
		return nil
	}
	conn := &fullConn{newFake(no, nil), 1000, make(chan struct{})}
	c := full(t, conn)
	finish(t, begin(t, c, post(t, "a", strings.Repeat("x", 10_000))))
	if !conn.isClosed() {
		t.Error("the rest of the request would be read as the next one")
	}
	close(conn.reads)
}

// line is a context that a connection is tied to.
type line struct {
	context.Context
	ended bool
	tied  Cutter
	ties  int
}

func (l *line) Tie(c Cutter) bool {
	if l.ended {
		return false
	}
	l.tied = c
	l.ties++
	return true
}

func (l *line) Untie() bool {
	tied := l.tied != nil
	l.tied = nil
	return tied
}

func (l *line) Err() error {
	if l.ended {
		return context.Canceled
	}
	return nil
}

func (l *line) cut() {
	l.ended = true
	l.tied.Cut()
	l.tied = nil
}

func TestTheEndOfALifelineClosesTheConnection(t *testing.T) {
	conn := newFake(atOnce("HTTP/1.1 200 OK\r\n\r\nhello"), nil)
	c, _ := client(t, nil, func() *fakeConn { return conn })
	l := &line{Context: t.Context()}
	resp := begin(t, c, get(t, "a").WithContext(l))
	io.ReadFull(resp.Body, make([]byte, 5))
	l.cut()
	if _, err := resp.Body.Read(make([]byte, 1)); !conn.isClosed() || err == nil || err == io.EOF {
		t.Errorf("closed %v, and reading says %v", conn.isClosed(), err)
	}
}

// A lifeline outlives the call. What comes next on the connection is not its business.
func TestAConnectionIsUntiedWhenItsAnswerIsOver(t *testing.T) {
	c, _ := client(t, nil, func() *fakeConn { return newFake(atOnce(hello), nil) })
	l := &line{Context: t.Context()}
	finish(t, begin(t, c, get(t, "a").WithContext(l)))
	if l.tied != nil || l.ties != 1 || c.pool.idle.Load() != 1 {
		t.Errorf("tied %d times, still %v", l.ties, l.tied)
	}
}

// Whoever sends a little and falls silent holds little.
func TestABodyIsWaitedForInABufferThatFitsWhatCame(t *testing.T) {
	b := sendBuffer{small: make([]byte, waitSize)}
	for _, step := range []struct {
		came, next int // in bytes; came is negative for as much as there was room for
	}{
		{1, waitSize}, {-1, middleSize}, {waitSize, middleSize}, {-1, sendSize}, {-1, sendSize},
		{waitSize, sendSize}, {1, waitSize}, {-1, middleSize}, {0, waitSize},
	} {
		came := step.came
		if came < 0 {
			came = len(b.room())
		}
		if b.adapt(came); len(b.all()) != step.next {
			t.Errorf("after %d bytes the next are waited for in %d, want %d", came, len(b.all()), step.next)
		}
	}
}

// askedByGRPC is a request as gRPC's clients make them.
func askedByGRPC(t testing.TB) *http.Request {
	r := get(t, "a")
	r.Header.Set("Te", "trailers")
	r.Header.Set("Content-Type", "application/grpc+proto")
	return r
}

// A status of gRPC that has failed may be long, and the answer is worth nothing without.
func TestTrailersOfGRPCMayBeLong(t *testing.T) {
	status := strings.Repeat("x", 8<<10)
	conn := newFake(whole("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nGrpc-Message: "+status+"\r\n\r\n"), nil)
	c, _ := client(t, nil, func() *fakeConn { return conn })
	for range 2 { // the second on the connection of the first
		resp := begin(t, c, askedByGRPC(t))
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "hello" || err != nil || resp.Trailer.Get("Grpc-Message") != status {
			t.Fatalf("%q, %v, and %d bytes of %d in the trailer", body, err, len(resp.Trailer.Get("Grpc-Message")), len(status))
		}
	}
}

// What waits for a browser, or for nobody, costs little: there are many of them.
func TestRoomForLongTrailersIsHeldByCallsOfGRPCAlone(t *testing.T) {
	for contentType, want := range map[string]int{
		"": readBuffer, "application/json": readBuffer, "application/grpc-web": readBuffer, "application/grpcx": readBuffer, "application/connect+proto": readBuffer,
		"application/grpc": trailersBuffer, "application/GRPC+proto": trailersBuffer, "application/grpc; charset=x": trailersBuffer,
	} {
		c, _ := client(t, nil, func() *fakeConn { return newFake(whole(hello), nil) })
		r := askedByGRPC(t)
		r.Header.Set("Content-Type", contentType)
		resp := begin(t, c, r)
		conn := resp.Body.(*exchange).conn
		if got := conn.br.Size(); got != want {
			t.Errorf("%q is answered through %d bytes", contentType, got)
		}
		finish(t, resp)
		if got := conn.br.Size(); !conn.idle || got != readBuffer {
			t.Errorf("after %q a connection (idle: %v) holds %d bytes", contentType, conn.idle, got)
		}
		r.Header.Del("Te")
		resp = begin(t, c, r)
		if got := conn.br.Size(); got != readBuffer {
			t.Errorf("%q without trailers is answered through %d bytes", contentType, got)
		}
		finish(t, resp)
	}
}

func TestATunnelHasNoRoomForTrailers(t *testing.T) {
	const switches = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	for ahead, want := range map[string]int{"": readBuffer, "said at once": trailersBuffer} {
		c, _ := client(t, nil, func() *fakeConn { return newFake(atOnce(switches+ahead), nil) })
		resp := begin(t, c, askedByGRPC(t))
		tun := resp.Body.(*tunnel)
		if got := tun.br.Size(); got != want {
			t.Errorf("with %q ahead %d bytes are held", ahead, got)
		}
		b := make([]byte, len(ahead))
		if _, err := io.ReadFull(tun, b); err != nil || string(b) != ahead {
			t.Errorf("%q, %v", b, err)
		}
		tun.Close()
	}
}
