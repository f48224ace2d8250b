package module

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// eachKind runs a test against net/http's server on connections as they are, which
// says what is right, and on those of clientConn.
func eachKind(t *testing.T, test func(t *testing.T, dial func(*http.Server) *net.TCPConn)) {
	for name, cheap := range map[string]bool{"plain": false, "cheap": true} {
		t.Run(name, func(t *testing.T) {
			test(t, func(server *http.Server) *net.TCPConn {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				server.ConnContext = connContext
				server.ConnState = func(c net.Conn, state http.ConnState) {
					if state == http.StateHijacked {
						takeOver(c)
					}
				}
				if cheap {
					l = cheapListener{l}
				}
				go func() { _ = server.Serve(l) }()
				t.Cleanup(func() { server.Close() })
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				return c.(*net.TCPConn)
			})
		})
	}
}

type cheapListener struct{ net.Listener }

func (l cheapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newClientConn(c.(*net.TCPConn)), nil
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// wantAnswer reads an answer and returns its body.
func wantAnswer(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	return string(body)
}

const (
	get  = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
)

// cancelled waits for the end of a request's context, d at most.
func cancelled(r *http.Request, d time.Duration) bool {
	select {
	case <-r.Context().Done():
		return r.Context().Err() == context.Canceled
	case <-time.After(d):
		return false
	}
}

func TestARequestIsCancelledWhenItsClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn) error{
		"closes":      (*net.TCPConn).Close,
		"half-closes": (*net.TCPConn).CloseWrite,
		"resets": func(c *net.TCPConn) error {
			_ = c.SetLinger(0)
			return c.Close()
		},
	} {
		for _, request := range []string{get, post} {
			t.Run(name+" "+request[:4], func(t *testing.T) {
				eachKind(t, func(t *testing.T, dial func(*http.Server) *net.TCPConn) {
					serving, result := make(chan bool), make(chan bool)
					served := 0
					c := dial(&http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						if served++; served < 3 {
							return // so that the connection is one that was used before
						}
						serving <- true
						result <- cancelled(r, 5*time.Second)
					})})
					answers := bufio.NewReader(c)
					for range 2 {
						send(t, c, request)
						wantAnswer(t, answers)
					}
					send(t, c, request)
					<-serving
					if err := leave(c); err != nil {
						t.Fatal(err)
					}
					if !<-result {
						t.Error("the request went on without its client")
					}
				})
			})
		}
	}
}

// A client that has sent its next request, and then its last byte, has left only when
// the last is being served.
func TestAPipelinedRequestDoesNotCancelTheOneBeforeIt(t *testing.T) {
	eachKind(t, func(t *testing.T, dial func(*http.Server) *net.TCPConn) {
		serving := make(chan bool, 2)
		wait := 300 * time.Millisecond
		c := dial(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			serving <- true
			fmt.Fprint(w, cancelled(r, wait))
			wait = 5 * time.Second
		})})
		send(t, c, post)
		<-serving
		send(t, c, post)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(c)
		for _, want := range []string{"false", "true"} {
			if got := wantAnswer(t, answers); got != want {
				t.Errorf("cancelled is %s, wanted %s", got, want)
			}
		}
	})
}

// A deadline that the server has replaced by a later one cuts nothing, and one that
// holds does.
func TestDeadlinesOfAConnection(t *testing.T) {
	eachKind(t, func(t *testing.T, dial func(*http.Server) *net.TCPConn) {
		c := dial(&http.Server{ReadHeaderTimeout: 200 * time.Millisecond, IdleTimeout: time.Second,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })})
		answers := bufio.NewReader(c)
		for range 2 {
			send(t, c, get)
			wantAnswer(t, answers)
			time.Sleep(400 * time.Millisecond)
		}
		begun := time.Now()
		if b, err := answers.ReadByte(); err != io.EOF {
			t.Errorf("read %q, %v from a connection that is idle for too long", b, err)
		}
		if took := time.Since(begun); took < 400*time.Millisecond || took > 4*time.Second {
			t.Errorf("an idle connection was closed after another %v, wanted 0.6 s", took)
		}
	})
}

func TestARequestThatDoesNotEndIsNotWaitedFor(t *testing.T) {
	eachKind(t, func(t *testing.T, dial func(*http.Server) *net.TCPConn) {
		c := dial(&http.Server{ReadHeaderTimeout: 100 * time.Millisecond, IdleTimeout: time.Hour,
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
		answers := bufio.NewReader(c)
		send(t, c, get)
		wantAnswer(t, answers)
		send(t, c, get[:20])
		if _, err := io.ReadAll(answers); err != nil {
			t.Error(err)
		}
	})
}

func TestAHandlerInterruptsTheReadOfItsBody(t *testing.T) {
	eachKind(t, func(t *testing.T, dial func(*http.Server) *net.TCPConn) {
		result := make(chan error)
		c := dial(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			time.AfterFunc(100*time.Millisecond, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
			_, err := io.ReadAll(r.Body)
			result <- err
		})})
		send(t, c, post[:len(post)-1])
		if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading the body gave %v", err)
		}
	})
}

func TestAConnectionThatAHandlerTakesOverIsLikeAnyOther(t *testing.T) {
	eachKind(t, func(t *testing.T, dial func(*http.Server) *net.TCPConn) {
		result := make(chan error)
		c := dial(&http.Server{ReadHeaderTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				result <- err
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "hello")
			var one [1]byte // as net/http listens for the client's leaving
			for _, want := range "late" {
				n, err := conn.Read(one[:])
				if n != 1 || one[0] != byte(want) || err != nil {
					result <- fmt.Errorf("read %d bytes, %q, %v", n, one, err)
					return
				}
			}
			_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, err = conn.Read(one[:])
			result <- err
		})})
		send(t, c, get)
		var hello [5]byte
		if _, err := io.ReadFull(c, hello[:]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Millisecond) // the server's deadline for the header is over
		send(t, c, "late")
		if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, wanted the bytes and then the deadline", err)
		}
	})
}

// pair is a connection as the server has it, and its client.
func pair(t *testing.T) (*clientConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := newClientConn(conn.(*net.TCPConn)).(*clientConn)
	connContext(t.Context(), c)
	return c, client
}

// read reads into p, and says what came.
func read(t *testing.T, c net.Conn, p []byte) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := c.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(p[:n])
}

// The buffer for requests may have room for one byte only.
func TestAReadOfOneByteIntoTheBufferIsARead(t *testing.T) {
	c, client := pair(t)
	buffer, listen := make([]byte, 4096), make([]byte, 1)
	send(t, client, strings.Repeat("a", 4095))
	for got := 0; got < 4095; {
		got += len(read(t, c, buffer[got:]))
	}
	if got := read(t, c, listen); got != "" {
		t.Errorf("read %q while listening, wanted nothing", got)
	}
	send(t, client, "b")
	if got := read(t, c, buffer[4095:]); got != "b" {
		t.Errorf("read %q, wanted b", got)
	}
	send(t, client, "cd")
	if got := read(t, c, buffer[:1]); got != "c" {
		t.Errorf("read %q, wanted c: a part of the buffer", got)
	}
}

func TestHTTP2AndSlowClientsHaveAPlainConnection(t *testing.T) {
	for begin, plain := range map[string]bool{"PRI * HTTP/2.0\r\n": true, "PO": true, "POST / HTTP/1.1\r\n": false, "PROPFIND /": false} {
		c, client := pair(t)
		send(t, client, begin)
		read(t, c, make([]byte, 4096))
		if c.plain != plain {
			t.Errorf("%q: plain is %t, wanted %t", begin, c.plain, plain)
		}
		if plain {
			send(t, client, "x")
			if got := read(t, c, make([]byte, 1)); got != "x" {
				t.Errorf("%q: read %q, wanted x", begin, got)
			}
		}
	}
}

func TestAClosedConnectionIsForgotten(t *testing.T) {
	c, client := pair(t)
	send(t, client, get)
	read(t, c, make([]byte, 4096))
	read(t, c, make([]byte, 1))
	known := func() bool {
		h := watching()
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.conns[c.watched] == c
	}
	if !known() {
		t.Error("nobody watches a connection whose client is listened for")
	}
	c.Close()
	if known() {
		t.Error("a closed connection is still watched")
	}
	if watching().add(c) != 0 {
		t.Error("a closed connection is watched again")
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read %d bytes, %v, from a closed connection", n, err)
	}
}

// Without the kernel's help net/http listens by itself.
func TestARequestIsCancelledThoughTheKernelTakesNoMore(t *testing.T) {
	before := watching
	watching = func() *hangups { return &hangups{fd: -1} }
	t.Cleanup(func() { watching = before })
	TestARequestIsCancelledWhenItsClientLeaves(t)
}
