package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// errUnwanted is why a test ends a call.
var errUnwanted = errors.New("no longer wanted")

// The end of a call's context ends what it does, wherever it is, and says why.
func TestTheEndOfACallEndsItsConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		body   func() io.Reader
	}{
		"while the answer is waited for":    {},
		"in the head of the answer":         {answer: "HTTP/1.1 200 OK\r\n"},
		"in the body":                       {answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"},
		"between chunks":                    {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
		"while the body is sent":            {body: func() io.Reader { return endlessBody{} }},
		"while the caller's body is silent": {answer: "HTTP/1.1 200 OK\r\n\r\nhello", body: func() io.Reader { r, _ := io.Pipe(); return r }},
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c Config) {
				if strings.Contains(name, "silent") && c.Client == Standard {
					return // it waits for the body
				}
				there, gone := make(chan struct{}), make(chan struct{})
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
					http.ReadRequest(br)
					io.WriteString(c, tc.answer)
					close(there)
					io.Copy(io.Discard, br)
					close(gone)
				})
				tr := New(c)
				defer tr.CloseIdle()
				var body io.Reader
				if tc.body != nil {
					body = tc.body()
				}
				r := request(t, "POST", "l", w.address, body)
				ctx, cancel := context.WithCancelCause(r.Context())
				go func() { <-there; cancel(errUnwanted) }()
				resp, err := tr.RoundTrip(r.WithContext(ctx))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if err != errUnwanted {
					t.Errorf("got %v", err)
				}
				<-gone
			})
		})
	}
}

type endlessBody struct{}

func (endlessBody) Read(p []byte) (int, error) { return len(p), nil }

func TestACallThatHasEndedIsNotMade(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		w := speak(t, func(*testing.T, *net.TCPConn, *bufio.Reader) {})
		tr := New(c)
		defer tr.CloseIdle()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errUnwanted)
		body := newOwnBody(strings.NewReader("hello"))
		_, err := tr.RoundTrip(request(t, "POST", "l", w.address, body).WithContext(ctx))
		if <-body.closed; err != errUnwanted || w.dials.Load() != 0 || body.reads.Load() != 0 {
			t.Errorf("%v, with %d connections", err, w.dials.Load())
		}
	})
}

func TestTheEndOfACallEndsItsDial(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		c.DialTimeout = time.Minute
		tr := New(c)
		ctx, cancel := context.WithCancelCause(t.Context())
		tr.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel(errUnwanted)
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		if _, err := tr.RoundTrip(request(t, "GET", "l", "no-such-host.invalid:80", nil).WithContext(ctx)); err != errUnwanted {
			t.Errorf("got %v", err)
		}
	})
}

// Field report H01. A connection that the other side has closed meanwhile is no reason to fail: not a
// byte was written to it. net/http does not look before it writes.
func TestAConnectionThatHasEndedIsReplaced(t *testing.T) {
	ended := make(chan struct{})
	w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
		_, body := readRequest(br)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		c.CloseWrite()
		ended <- struct{}{}
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	for i := range 20 {
		resp, err := tr.RoundTrip(request(t, "POST", "l", w.address, strings.NewReader("hello")))
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
			t.Fatalf("call %d: %q, %v", i, b, err)
		}
		resp.Body.Close()
		<-ended
	}
	if n := w.dials.Load(); n != 20 {
		t.Errorf("%d connections", n)
	}
}

// What an idle connection says by itself is the answer to nothing. net/http
// may take it for one, as it does not look before it writes.
func TestAnAnswerThatNobodyAskedForIsNobodys(t *testing.T) {
	said := make(chan struct{}, 10)
	w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
		for {
			r, _ := readRequest(br)
			if r == nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nlate")
			said <- struct{}{}
		}
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	for range 3 {
		if got := get(t, tr, "l", w.address); got != "hi" {
			t.Fatalf("got %q", got)
		}
		<-said
	}
}

func TestAnUpgradedConnectionIsTheCallers(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
			readRequest(br)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
			b, err := io.ReadAll(br) // up to the end of the direction
			fmt.Fprintf(c, "%s %v", b, err)
		})
		tr := New(c)
		defer tr.CloseIdle()
		r := request(t, "GET", "l", w.address, nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		ctx, cancel := context.WithCancel(r.Context())
		resp, err := tr.RoundTrip(r.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		cancel() // it outlives the request
		both, ok := resp.Body.(interface {
			io.ReadWriteCloser
			CloseWrite() error
		})
		if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%d, with a body of %T", resp.StatusCode, resp.Body)
		}
		io.WriteString(both, "hello")
		if err := both.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(both); string(b) != "earlyhello <nil>" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

// Who asks for a switch that is none must not get a connection to write to.
func TestASwitchToNothingIsNone(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
			readRequest(br)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\nmore")
		})
		tr := New(c)
		defer tr.CloseIdle()
		for range 2 {
			resp, err := tr.RoundTrip(request(t, "GET", "l", w.address, nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := resp.Body.(io.Writer); ok {
				t.Error("it can be written to")
			}
			if b, _ := io.ReadAll(resp.Body); len(b) > 0 {
				t.Errorf("%q is said to be its body", b)
			}
			resp.Body.Close()
		}
		if n := w.dials.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}
