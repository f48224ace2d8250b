package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func get(t testing.TB, key string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+key+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func post(t testing.TB, key, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+key+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// begin makes a call whose answer is not read yet.
func begin(t testing.TB, c *Client, r *http.Request) *http.Response {
	t.Helper()
	resp, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func finish(t testing.TB, resp *http.Response) {
	t.Helper()
	if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
		t.Fatalf("got %q, %v", b, err)
	}
	resp.Body.Close()
}

// Each look is a system call.
func TestAConnectionIsLookedAtOnceForARequest(t *testing.T) {
	always := func([]byte) []byte { return []byte(hello) }
	for name, request := range map[string]func() *http.Request{
		"without a body":   func() *http.Request { return get(t, "a") },
		"a body in memory": func() *http.Request { return post(t, "a", "a body") },
		"one that is not": func() *http.Request {
			r := post(t, "a", "a body")
			r.GetBody = nil
			return r
		},
	} {
		conn := newFake(always, nil)
		c, dials := client(t, nil, func() *fakeConn { return conn })
		finish(t, begin(t, c, get(t, "a")))
		if conn.looks != 0 || *dials != 1 {
			t.Fatalf("%d looks at a new connection", conn.looks)
		}
		resp := begin(t, c, request())
		if conn.looks != 1 || *dials != 1 {
			t.Errorf("%s: %d looks, %d connections", name, conn.looks, *dials)
		}
		resp.Body.Close()
	}
}

func TestAConnectionIsUsedForItsKeyOnly(t *testing.T) {
	c, dials := client(t, nil, func() *fakeConn { return newFake(atOnce(hello), nil) })
	for _, key := range []string{"a", "b", "a", "b", "b"} {
		finish(t, begin(t, c, get(t, key)))
	}
	if *dials != 2 {
		t.Errorf("%d connections for two keys", *dials)
	}
}

// What was used last is the least likely to be closed by the other side.
func TestTheConnectionThatWasUsedLastIsUsedNext(t *testing.T) {
	var conns []*fakeConn
	c, _ := client(t, nil, func() *fakeConn {
		conns = append(conns, newFake(atOnce(hello), nil))
		return conns[len(conns)-1]
	})
	one, two := begin(t, c, get(t, "a")), begin(t, c, get(t, "a"))
	finish(t, two)
	finish(t, one)
	before := conns[0].writes
	finish(t, begin(t, c, get(t, "a")))
	if conns[0].writes != before+1 {
		t.Error("another was")
	}
}

func TestTheHeadAndABodyInMemoryLeaveInOneWrite(t *testing.T) {
	for _, size := range []int{1, 3000, maxInMemory} {
		conn := newFake(whole(hello), nil)
		c, _ := client(t, nil, func() *fakeConn { return conn })
		finish(t, begin(t, c, post(t, "a", strings.Repeat("x", size))))
		if conn.writes != 1 {
			t.Errorf("%d bytes left in %d writes", size, conn.writes)
		}
	}
}

// Each piece of a body that comes by itself may be what somebody waits for. It leaves
// at once, with what frames it.
func TestAPieceOfABodyLeavesInOneWrite(t *testing.T) {
	conn := newFake(whole(hello), nil)
	c, _ := client(t, nil, func() *fakeConn { return conn })
	source, into := io.Pipe()
	go func() {
		for range 10 {
			into.Write([]byte("x"))
		}
		into.Close()
	}()
	r := post(t, "a", "")
	r.Body, r.ContentLength, r.GetBody = source, -1, nil
	finish(t, begin(t, c, r))
	if conn.writes != 1+10+1 {
		t.Errorf("the head, ten pieces and the end left in %d writes", conn.writes)
	}
}

func TestACallHasNoGoroutine(t *testing.T) {
	c, _ := client(t, nil, func() *fakeConn { return newFake(whole(hello), nil) })
	before := runtime.NumGoroutine()
	var open []*http.Response
	for i := range 100 {
		open = append(open, begin(t, c, post(t, fmt.Sprint(i%7), "question")))
	}
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d goroutines for 100 calls", n)
	}
	for _, resp := range open {
		finish(t, resp)
	}
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d goroutines for 100 idle connections", n)
	}
}

func TestTheIdleConnectionsAreBounded(t *testing.T) {
	var conns []*fakeConn
	c, dials := client(t, func(c *Config) { c.MaxIdlePerKey, c.MaxIdle = 2, 3 }, func() *fakeConn {
		conns = append(conns, newFake(atOnce(hello), nil))
		return conns[len(conns)-1]
	})
	var open []*http.Response
	for _, key := range []string{"a", "a", "a", "b", "b"} {
		open = append(open, begin(t, c, get(t, key)))
	}
	for _, resp := range open {
		finish(t, resp)
	}
	var left []int
	for i, conn := range conns {
		if !conn.isClosed() {
			left = append(left, i)
		}
	}
	// The third of a was one too many for a; with the second of b the oldest left.
	if fmt.Sprint(left) != "[1 3 4]" || *dials != 5 || c.pool.idle.Load() != 3 {
		t.Errorf("left are %v, %d of them idle", left, c.pool.idle.Load())
	}
}

func TestAnIdleConnectionIsClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newFake(atOnce(hello), nil)
		c, _ := client(t, func(c *Config) { c.IdleTimeout = 25 * time.Second }, func() *fakeConn { return conn })
		for range 3 {
			finish(t, begin(t, c, get(t, "a")))
			time.Sleep(24 * time.Second)
		}
		if conn.isClosed() || conn.writes != 3 {
			t.Error("it was closed in use")
		}
		time.Sleep(3 * time.Second)
		if !conn.isClosed() {
			t.Error("it is open after 27 s")
		}
		synctest.Wait()
		if c.pool.janitor.comes {
			t.Error("the janitor comes for nothing")
		}
	})
}

// Thousands of connections that the other side has closed would each keep a
// descriptor for as long as nobody wants them.
func TestAConnectionThatTheOtherSideHasClosedIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newFake(atOnce(hello), nil)
		c, _ := client(t, nil, func() *fakeConn { return conn })
		finish(t, begin(t, c, get(t, "a")))
		conn.mu.Lock()
		conn.end = io.EOF
		conn.mu.Unlock()
		time.Sleep((probing + 1) * round)
		if !conn.isClosed() {
			t.Error("it is still open")
		}
	})
}

func TestAConnectionInUseIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &watchedConn{fakeConn: newFake(atOnce("HTTP/1.1 200 OK\r\n\r\nhello"), nil)}
		c := New(Config{IdleTimeout: time.Minute, MaxIdlePerKey: 1, MaxIdle: 1, Dial: func(context.Context, string) (Conn, error) { return conn, nil }})
		resp := begin(t, c, get(t, "a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if conn.watched < 55 || conn.watched > 60 {
			t.Errorf("%d times in a minute", conn.watched)
		}
		resp.Body.Close()
		seen := conn.watched
		time.Sleep(time.Minute)
		synctest.Wait()
		if conn.watched > seen {
			t.Error("it is watched when it is closed")
		}
	})
}

type watchedConn struct {
	*fakeConn
	watched int
}

func (c *watchedConn) WatchUsed() { c.watched++ }

func TestNothingIsKeptAfterCloseIdleUntilSomebodyWantsIt(t *testing.T) {
	var conns []*fakeConn
	c, _ := client(t, nil, func() *fakeConn {
		conns = append(conns, newFake(atOnce(hello), nil))
		return conns[len(conns)-1]
	})
	finish(t, begin(t, c, get(t, "a")))
	open := begin(t, c, get(t, "b"))
	c.CloseIdle()
	if !conns[0].isClosed() || conns[1].isClosed() {
		t.Error("what was idle is open, or what was in use closed")
	}
	finish(t, open)
	if !conns[1].isClosed() {
		t.Error("it was kept")
	}
	finish(t, begin(t, c, get(t, "a")))
	if c.pool.idle.Load() != 1 {
		t.Error("nothing is kept any more")
	}
}

// failingConn fails its first write after it has answered once, with some of it
// written or nothing.
type failingConn struct {
	*fakeConn
	written int
}

func (c *failingConn) WriteNow(p []byte) (int, error) {
	if c.isAsked() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end, c.all = syscall.ECONNRESET, append(c.all, p[:c.written]...)
		return c.written, syscall.EPIPE
	}
	return c.Write(p)
}

func (c *failingConn) Ask(p []byte) (int, error) { return c.WriteNow(p) }

func (c *fakeConn) isAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func TestARequestIsSentOnAnotherConnectionOnlyIfNothingWasWritten(t *testing.T) {
	for _, written := range []int{0, 1} {
		t.Run(fmt.Sprint(written, " bytes written"), func(t *testing.T) {
			dials := 0
			c := New(Config{IdleTimeout: time.Minute, MaxIdlePerKey: 1, MaxIdle: 1, Dial: func(context.Context, string) (Conn, error) {
				dials++
				if dials > 1 {
					return newFake(whole(hello), nil), nil
				}
				return &failingConn{newFake(whole(hello), nil), written}, nil
			}})
			t.Cleanup(c.CloseIdle)
			finish(t, begin(t, c, post(t, "a", "first")))
			resp, err := c.RoundTrip(post(t, "a", "second"))
			if written > 0 {
				if !errors.Is(err, syscall.ECONNRESET) || dials != 1 {
					t.Errorf("%v, on %d connections", err, dials)
				}
				return
			}
			if err != nil || dials != 2 {
				t.Fatalf("%v, on %d connections", err, dials)
			}
			finish(t, resp)
		})
	}
}

// A fresh connection that takes nothing is no reason to try another: there is no end
// to that.
func TestAFreshConnectionIsNotReplaced(t *testing.T) {
	dials := 0
	c := New(Config{IdleTimeout: time.Minute, MaxIdlePerKey: 1, MaxIdle: 1, Dial: func(context.Context, string) (Conn, error) {
		dials++
		conn := &failingConn{newFake(whole(hello), nil), 0}
		conn.asked = true
		return conn, nil
	}})
	if _, err := c.RoundTrip(post(t, "a", "question")); !errors.Is(err, syscall.ECONNRESET) || dials != 1 {
		t.Errorf("%v, on %d connections", err, dials)
	}
}
