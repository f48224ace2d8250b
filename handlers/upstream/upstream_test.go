package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

func request(t *testing.T, method, lifecycle, address string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://placeholder/x", body)
	if err != nil {
		t.Fatal(err)
	}
	r.URL = &url.URL{Scheme: "http", Host: Host(lifecycle, address), Opaque: "/x"}
	return r
}

// eachClient runs a test with every client.
func eachClient(t *testing.T, test func(t *testing.T, c Config)) {
	t.Helper()
	for _, client := range []Client{Lean, Standard} {
		t.Run(string(client), func(t *testing.T) {
			test(t, Config{Client: client})
		})
	}
}

func get(t *testing.T, tr *Transport, lifecycle, address string) string {
	t.Helper()
	resp, err := tr.RoundTrip(request(t, http.MethodGet, lifecycle, address, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAPoolKeyKeepsItsAddress(t *testing.T) {
	for _, address := range []string{"10.0.0.5:31001", "rock-proxy-1:8081", "a.b.c.example:1", "[fd00::7]:8080", "[::ffff:10.0.0.1]:1"} {
		got, err := splitHost(Host("0123456789abcdef", address))
		if err != nil || got != (destination{address, 0}) {
			t.Errorf("%s became %v, %v", address, got, err)
		}
		got, err = splitHost(TunnelHost("0123456789abcdef", address, 8000))
		if err != nil || got != (destination{address, 8000}) {
			t.Errorf("%s through a tunnel became %v, %v", address, got, err)
		}
	}
}

func FuzzSplitHost(f *testing.F) {
	f.Add("0123.n.10.0.0.5:1")
	f.Add("l.6.fd00__7:1")
	f.Add("l.n-8000.10.0.0.5:1")
	f.Add("l.n-0.10.0.0.5:1")
	f.Add("x")
	f.Fuzz(func(t *testing.T, key string) {
		to, err := splitHost(key)
		if err == nil && !strings.Contains(to.address, ":") {
			t.Fatalf("%q became %v", key, to)
		}
	})
}

// Field report F05: a recycled address must not meet an old connection.
func TestConnectionsAreReusedWithinOneLifeAndNeverAcrossLives(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }))
		defer s.Close()
		tr := New(c)
		defer tr.CloseIdle()
		address := s.Listener.Addr().String()
		first, again := get(t, tr, "life1", address), get(t, tr, "life1", address)
		other := get(t, tr, "life2", address)
		if first != again {
			t.Errorf("the same life dialled twice: %s, %s", first, again)
		}
		if other == first {
			t.Errorf("another life got the connection %s", first)
		}
	})
}

// breaksAfterOne serves one request on each connection and reads the second
// without answering it.
func breaksAfterOne(t *testing.T, seen *atomic.Int32) string {
	t.Helper()
	return loopback.Serve(t, func(c net.Conn) {
		defer c.Close()
		br := bufio.NewReader(c)
		for i := range 2 {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			seen.Add(1)
			if i == 0 {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}
	})
}

// Contract checklist 60: nothing is replayed once a byte was written, not even
// what net/http would replay by itself.
func TestARequestThatWasWrittenIsNeverSentAgain(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		for name, make := range map[string]func(address string) *http.Request{
			"GET":            func(a string) *http.Request { return request(t, http.MethodGet, "l", a, nil) },
			"HEAD":           func(a string) *http.Request { return request(t, http.MethodHead, "l", a, nil) },
			"GET with body":  func(a string) *http.Request { return request(t, http.MethodGet, "l", a, strings.NewReader("x")) },
			"POST with body": func(a string) *http.Request { return request(t, http.MethodPost, "l", a, strings.NewReader("x")) },
			"POST with Idempotency-Key": func(a string) *http.Request {
				r := request(t, http.MethodPost, "l", a, strings.NewReader("x"))
				r.Header.Set("Idempotency-Key", "k")
				return r
			},
			"empty POST with X-Idempotency-Key": func(a string) *http.Request {
				r := request(t, http.MethodPost, "l", a, http.NoBody)
				r.Header.Set("X-Idempotency-Key", "k")
				return r
			},
		} {
			t.Run(name, func(t *testing.T) {
				var seen atomic.Int32
				address := breaksAfterOne(t, &seen)
				tr := New(c)
				defer tr.CloseIdle()
				get(t, tr, "l", address)
				resp, err := tr.RoundTrip(make(address))
				if err == nil {
					resp.Body.Close()
					t.Fatal("the second request was answered, on another connection")
				}
				var dial *DialError
				if errors.As(err, &dial) {
					t.Fatalf("%v: called a failed dial", err)
				}
				if n := seen.Load(); n != 2 {
					t.Fatalf("the upstream saw %d requests, want 2", n)
				}
			})
		}
	})
}

// What is done to a GET so that it is not replayed must not show on the wire.
func TestAGetIsSentWithoutABody(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		var length int64
		var encoding []string
		var headers http.Header
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			length, encoding, headers = r.ContentLength, r.TransferEncoding, r.Header
		}))
		defer s.Close()
		tr := New(c)
		defer tr.CloseIdle()
		get(t, tr, "l", s.Listener.Addr().String())
		if length != 0 || len(encoding) != 0 || headers.Get("Accept-Encoding") != "" || headers.Get("Content-Length") != "" {
			t.Errorf("length %d, encoding %v, headers %v", length, encoding, headers)
		}
	})
}

func TestADialThatFailsSaysSoAndTouchesNoBody(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		l.Close()
		tr := New(c)
		body := &countingBody{Reader: strings.NewReader("body")}
		_, err = tr.RoundTrip(request(t, http.MethodPost, "l", address, body))
		var dial *DialError
		if !errors.As(err, &dial) || !Refused(err) {
			t.Fatalf("got %v", err)
		}
		if body.reads != 0 {
			t.Errorf("the body was read %d times", body.reads)
		}
	})
}

type countingBody struct {
	io.Reader
	reads int
}

func (b *countingBody) Read(p []byte) (int, error) { b.reads++; return b.Reader.Read(p) }
func (b *countingBody) Close() error               { return nil }

// A listener whose queue is full never completes a handshake.
func TestADialIsBoundedByItsTimeout(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		c.DialTimeout = 50 * time.Millisecond
		tr := New(c)
		tr.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		_, err := tr.RoundTrip(request(t, http.MethodGet, "l", "no-such-host.invalid:80", nil))
		var dial *DialError
		if !errors.As(err, &dial) {
			t.Fatalf("got %v", err)
		}
	})
}

// Field report H07: the environment's proxy is not for sandboxes. net/http reads the
// environment once in a process, so that another one has to try.
func TestTheProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	const proxied = "E2B_TEST_PROXIED"
	if os.Getenv(proxied) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), proxied+"=yes")
		for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
			again.Env = append(again.Env, name+"=http://127.0.0.1:1")
		}
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	eachClient(t, func(t *testing.T, c Config) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "direct") }))
		defer s.Close()
		tr := New(c)
		defer tr.CloseIdle()
		if got := get(t, tr, "l", s.Listener.Addr().String()); got != "direct" {
			t.Errorf("got %q", got)
		}
	})
}

func TestTLSUpstreamsAreVerifiedByTheirRealName(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	defer s.Close()
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	send := func(tr *Transport) error {
		r := request(t, http.MethodGet, "l", s.Listener.Addr().String(), nil)
		r.URL.Scheme = "https"
		resp, err := tr.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	good := New(Config{TLS: roots})
	defer good.CloseIdle()
	if err := send(good); err != nil {
		t.Error(err)
	}
	var dial *DialError
	if err := send(New(Config{})); !errors.As(err, &dial) {
		t.Errorf("unknown CA: %v", err)
	}
}
