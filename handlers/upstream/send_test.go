package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
)

// ownBody is a request body that notes what becomes of it.
type ownBody struct {
	io.Reader
	reads, closes atomic.Int32
	closed        chan struct{}
}

func newOwnBody(r io.Reader) *ownBody { return &ownBody{Reader: r, closed: make(chan struct{}, 10)} }

func (b *ownBody) Read(p []byte) (int, error) { b.reads.Add(1); return b.Reader.Read(p) }
func (b *ownBody) Close() error               { b.closes.Add(1); b.closed <- struct{}{}; return nil }

// A client may wait for what the sandbox says to one piece before it sends the next.
func TestABodyIsSentPieceByPiece(t *testing.T) {
	for name, length := range map[string]int64{"of unknown length": -1, "of known length": 6} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c Config) {
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
					r, err := http.ReadRequest(br)
					if err != nil {
						t.Error(err)
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
					p := make([]byte, 3)
					for {
						if _, err := io.ReadFull(r.Body, p); err != nil {
							break
						}
						fmt.Fprintf(c, "3\r\n%s\r\n", p)
					}
					io.WriteString(c, "0\r\n\r\n")
				})
				tr := New(c)
				defer tr.CloseIdle()
				source, into := io.Pipe()
				r := request(t, "POST", "l", w.address, source)
				r.ContentLength = length
				resp, err := tr.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				p := make([]byte, 3)
				for _, piece := range []string{"one", "two"} {
					io.WriteString(into, piece)
					if _, err := io.ReadFull(resp.Body, p); err != nil || string(p) != piece {
						t.Fatalf("got %q, %v", p, err)
					}
				}
				into.Close()
				if n, err := resp.Body.Read(p); n != 0 || err != io.EOF {
					t.Fatal(n, err)
				}
			})
		})
	}
}

func TestABodyArrivesWhole(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000)
	for name, tc := range map[string]struct {
		body    string
		length  int64 // 0: unknown
		memory  bool
		trailer http.Header
	}{
		"in memory":                  {body: "hello", length: 5, memory: true},
		"in memory, long":            {body: long, length: int64(len(long)), memory: true},
		"of known length":            {body: "hello", length: 5},
		"of known length, long":      {body: long, length: int64(len(long))},
		"of unknown length":          {body: "hello"},
		"of unknown length, long":    {body: long},
		"of unknown length, but nil": {},
		"with trailers":              {body: "hello", trailer: http.Header{"A": {"b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c Config) {
				type seen struct {
					body    string
					trailer string
				}
				got := make(chan seen, 2)
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
					for {
						r, body := readRequest(br)
						if r == nil {
							return
						}
						got <- seen{body, r.Trailer.Get("A")}
						io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				})
				tr := New(c)
				defer tr.CloseIdle()
				for range 2 {
					body := newOwnBody(strings.NewReader(tc.body))
					r := request(t, "POST", "l", w.address, body)
					r.ContentLength, r.Trailer = tc.length, tc.trailer
					if tc.memory {
						r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(tc.body)), nil }
					}
					resp, err := tr.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if s := <-got; s.body != tc.body || s.trailer != tc.trailer.Get("A") {
						t.Errorf("%d bytes of %d arrived, trailer %q", len(s.body), len(tc.body), s.trailer)
					}
					if <-body.closed; body.closes.Load() != 1 {
						t.Errorf("closed %d times", body.closes.Load())
					}
				}
				if n := w.dials.Load(); n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

// What is not whole must not look whole, and the next request is not for the rest.
func TestABodyThatIsNotWhatWasSaidEndsTheConnection(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		body   string
		breaks bool // behind it
		length int64
		memory bool
	}{
		"too short":                 {body: "abc", length: 5},
		"too short, in memory":      {body: "abc", length: 5, memory: true},
		"too long":                  {body: "abcdefg", length: 5},
		"too long, in memory":       {body: "abcdefg", length: 5, memory: true},
		"broken":                    {body: "abc", breaks: true, length: 5},
		"broken, of unknown length": {body: "abc", breaks: true},
		"broken from the beginning": {breaks: true},
		"broken behind its end":     {body: "abcde", breaks: true, length: 5},
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c Config) {
				whole := make(chan string, 1)
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
					if r, body := readRequest(br); r != nil {
						whole <- body
					}
					br.ReadByte()
				})
				tr := New(c)
				defer tr.CloseIdle()
				var source io.Reader = strings.NewReader(tc.body)
				if tc.breaks {
					source = io.MultiReader(source, brokenReader{broken})
				}
				body := newOwnBody(source)
				r := request(t, "POST", "l", w.address, body)
				r.ContentLength = tc.length
				if tc.memory {
					r.GetBody = func() (io.ReadCloser, error) { return body, nil }
				}
				resp, err := tr.RoundTrip(r)
				if err == nil {
					resp.Body.Close()
					t.Fatal("answered")
				}
				if tc.breaks && !errors.Is(err, broken) {
					t.Errorf("got %v", err)
				}
				if <-body.closed; body.closes.Load() != 1 {
					t.Errorf("closed %d times", body.closes.Load())
				}
				select {
				case got := <-whole:
					// net/http finds out when the body is on its way, and nobody can
					// before the end of it.
					if c.Client != Standard && int64(len(tc.body)) != tc.length {
						t.Errorf("%q looked whole", got)
					}
				default:
				}
			})
		})
	}
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

// An upload may be refused long before its end.
func TestAnAnswerIsReturnedWhileTheBodyIsBeingSent(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		cut := make(chan error, 1)
		w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
			r, err := http.ReadRequest(br)
			if err != nil {
				t.Error(err)
				return
			}
			r.Body.Read(make([]byte, 1))
			io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
			_, err = io.Copy(io.Discard, r.Body)
			cut <- err
		})
		tr := New(c)
		defer tr.CloseIdle()
		source, into := io.Pipe()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for {
				if _, err := io.WriteString(into, "more"); err != nil {
					return
				}
			}
		}()
		resp, err := tr.RoundTrip(request(t, "POST", "l", w.address, source))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 413 || string(b) != "no" || err != nil {
			t.Errorf("got %d %q, %v", resp.StatusCode, b, err)
		}
		if err := <-cut; err == nil {
			t.Error("the body ended well")
		}
		<-sent // because the body was closed
	})
}

func TestABodyThatWaitsToBeAskedForIsSentWhenItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		first, then string
		status      int
		sent        bool
	}{
		"it is asked for":  {"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true},
		"nobody says":      {"", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true},
		"it is not wanted": {"HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "", 417, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, c Config) {
				t.Parallel()
				whole := make(chan bool, 1)
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
					r, err := http.ReadRequest(br)
					if err != nil {
						t.Error(err)
						return
					}
					io.WriteString(c, tc.first)
					b, err := io.ReadAll(r.Body)
					whole <- err == nil && string(b) == "hello"
					io.WriteString(c, tc.then)
				})
				tr := New(c)
				defer tr.CloseIdle()
				body := newOwnBody(strings.NewReader("hello"))
				r := request(t, "POST", "l", w.address, body)
				r.ContentLength = 5
				r.Header.Set("Expect", "100-continue")
				asked := false
				r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got100Continue: func() { asked = true }}))
				resp, err := tr.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				<-body.closed
				if got := <-whole; resp.StatusCode != tc.status || got != tc.sent || (body.reads.Load() > 0) != tc.sent {
					t.Errorf("status %d, whole %v, read %d times", resp.StatusCode, got, body.reads.Load())
				}
				if asked != strings.Contains(tc.first, "Continue") {
					t.Errorf("told that it was asked for: %v", asked)
				}
			})
		})
	}
}

// A server that answers without asking for the body may still take what comes next
// for it.
func TestABodyThatWasNotAskedForIsNotSentBehindTheAnswer(t *testing.T) {
	w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
		if b, _ := io.ReadAll(br); len(b) > 0 {
			t.Errorf("%q came behind the answer", b)
		}
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	for i := range 2 {
		r := request(t, "POST", "l", w.address, newOwnBody(strings.NewReader("hello")))
		r.ContentLength = 5
		r.Header.Set("Expect", "100-continue")
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if n := int(w.dials.Load()); resp.StatusCode != 401 || n != i+1 {
			t.Errorf("status %d, on %d connections", resp.StatusCode, n)
		}
	}
}

func TestWhoeverWantsToSeeInterimAnswersDoes(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
			readRequest(br)
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		tr := New(c)
		defer tr.CloseIdle()
		r := request(t, "GET", "l", w.address, nil)
		var seen []string
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				seen = append(seen, fmt.Sprint(code, h.Get("Link")))
				return nil
			},
		}))
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if len(seen) != 1 || seen[0] != "103</x>" {
			t.Errorf("seen %q", seen)
		}
	})
}

func TestWhatCannotBeSentIsRefusedBeforeAnybodyHearsOfIt(t *testing.T) {
	for name, spoil := range map[string]func(r *http.Request){
		"a line break in a header":   func(r *http.Request) { r.Header["A"] = []string{"b\r\nC: d"} },
		"a zero byte in a header":    func(r *http.Request) { r.Header["A"] = []string{"\x00"} },
		"a header with no name":      func(r *http.Request) { r.Header[""] = []string{"a"} },
		"a space in a header's name": func(r *http.Request) { r.Header["A b"] = []string{"a"} },
		"a method with a space":      func(r *http.Request) { r.Method = "GET /" },
		"no headers at all":          func(r *http.Request) { r.Header = nil },
		"a bad trailer":              func(r *http.Request) { r.ContentLength, r.Trailer = -1, http.Header{"A b": {"c"}} },
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c Config) {
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) { readRequest(br) })
				tr := New(c)
				defer tr.CloseIdle()
				body := newOwnBody(strings.NewReader("hello"))
				r := request(t, "POST", "l", w.address, body)
				r.ContentLength = 5
				spoil(r)
				_, err := tr.RoundTrip(r)
				var dial *DialError
				if err == nil || errors.As(err, &dial) {
					t.Errorf("got %v", err)
				}
				if <-body.closed; w.dials.Load() != 0 || body.reads.Load() != 0 {
					t.Errorf("%d connections, %d reads of the body", w.dials.Load(), body.reads.Load())
				}
			})
		})
	}
}
