package upstream

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
)

// wire is a server that speaks in bytes.
type wire struct {
	address string
	dials   atomic.Int32
}

// speak lets a server handle each connection with a function.
func speak(t *testing.T, talk func(t *testing.T, c *net.TCPConn, br *bufio.Reader)) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: l.Addr().String()}
	ended := make(chan struct{})
	conns := make(chan struct{}, 1000)
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.dials.Add(1)
			go func() {
				defer func() { c.Close(); conns <- struct{}{} }()
				talk(t, c.(*net.TCPConn), bufio.NewReader(c))
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
		for range w.dials.Load() {
			<-conns
		}
	})
	return w
}

// readRequest reads a request with its body. It is nil at the end of the connection.
func readRequest(br *bufio.Reader) (*http.Request, string) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, ""
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, ""
	}
	return r, string(body)
}

func TestAnAnswerEndsWhereItSays(t *testing.T) {
	for name, tc := range map[string]struct {
		method  string // default: GET
		answer  string
		close   bool // the server closes behind the answer
		status  int  // default: 200
		body    string
		trailer http.Header
		cut     bool // the body fails
		reused  bool // the connection is used again
	}{
		"with a length":          {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", body: "hello", reused: true},
		"with no length but 0":   {answer: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", reused: true},
		"in chunks":              {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", body: "hello", reused: true},
		"with trailers":          {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n", body: "x", trailer: http.Header{"A": {"b"}}, reused: true},
		"with trailers unsaid":   {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n", body: "x", trailer: http.Header{"A": {"b"}}, reused: true},
		"with the connection":    {answer: "HTTP/1.1 200 OK\r\n\r\nhello", close: true, body: "hello"},
		"of HTTP/1.0":            {answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", body: "hi"},
		"of HTTP/1.0, kept":      {answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", body: "hi", reused: true},
		"with Connection: close": {answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", body: "hi"},
		"to HEAD":                {method: "HEAD", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", reused: true},
		"to HEAD, in no chunks":  {method: "HEAD", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", reused: true},
		"without content":        {answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, reused: true},
		"not modified":           {answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304, reused: true},
		"behind others":          {answer: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", body: "hi", reused: true},
		"cut in its length":      {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", close: true, body: "hel", cut: true},
		"cut in a chunk":         {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", close: true, body: "hel", cut: true},
		"cut between chunks":     {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", close: true, body: "hel", cut: true},
		"cut in its trailers":    {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\nA:", close: true, body: "hel", cut: true},
		"with more behind it":    {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi, and more", body: "hi"},
		"of which all is said":   {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", close: true, body: "hi"},
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c Config) {
				closed := make(chan struct{}, 2)
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
					for {
						r, _ := readRequest(br)
						if r == nil {
							return
						}
						io.WriteString(c, tc.answer)
						if tc.close {
							c.CloseWrite()
							closed <- struct{}{}
						}
					}
				})
				tr := New(c)
				defer tr.CloseIdle()
				for range 2 {
					resp, err := tr.RoundTrip(request(t, cmp.Or(tc.method, "GET"), "l", w.address, nil))
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if string(body) != tc.body || (err != nil) != tc.cut || resp.StatusCode != cmp.Or(tc.status, 200) {
						t.Fatalf("got %d %q, %v", resp.StatusCode, body, err)
					}
					if !reflect.DeepEqual(resp.Trailer, tc.trailer) {
						t.Errorf("trailers %v", resp.Trailer)
					}
					if tc.close {
						<-closed
					}
					if c.Client == Standard && !tc.reused {
						return // it does not look at a connection before it writes
					}
				}
				if n := w.dials.Load(); (n == 1) != tc.reused {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":                  "",
		"half a head":              "HTTP/1.1 200 OK\r\nContent-Le",
		"another protocol":         "SSH-2.0-OpenSSH_9.2\r\n",
		"no status":                "HTTP/1.1\r\n\r\n",
		"a header without a colon": "HTTP/1.1 200 OK\r\nx\r\n\r\n",
		"two lengths":              "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"an unknown encoding":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"a head without an end":    "HTTP/1.1 200 OK\r\nx: " + strings.Repeat("x", 300<<10),
		"heads without an end":     strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20000),
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c Config) {
				w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
					readRequest(br)
					io.WriteString(c, answer)
				})
				tr := New(c)
				defer tr.CloseIdle()
				resp, err := tr.RoundTrip(request(t, "GET", "l", w.address, nil))
				if err == nil {
					resp.Body.Close()
					t.Fatalf("got %v", resp)
				}
				var dial *DialError
				if errors.As(err, &dial) {
					t.Errorf("%v: called a failed dial", err)
				}
			})
		})
	}
}

// A reset says that something is missing, also where the end of the connection is
// that of the answer.
func TestAResetIsNoEnd(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		read := make(chan struct{})
		w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
			readRequest(br)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
			<-read
			c.SetLinger(0)
		})
		tr := New(c)
		defer tr.CloseIdle()
		resp, err := tr.RoundTrip(request(t, "GET", "l", w.address, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		close(read)
		if b, err := io.ReadAll(resp.Body); err == nil || len(b) > 0 {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

// An answer that nobody reads to its end is cut, however little is missing: it may
// be without an end.
func TestAnAnswerThatIsClosedIsCut(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		cut := make(chan error, 1)
		w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
			readRequest(br)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello")
			_, err := br.ReadByte()
			cut <- err
		})
		tr := New(c)
		defer tr.CloseIdle()
		resp, err := tr.RoundTrip(request(t, "GET", "l", w.address, nil))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		resp.Body.Close()
		if err := <-cut; err == nil {
			t.Error("something was sent")
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("reading what was closed: %v", err)
		}
	})
}

// The end of one body must not be taken for that of another on the same connection.
func TestAnAnswerThatIsOverIsNoneOfTheNextOnesBusiness(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
			for range 2 {
				readRequest(br)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
			}
		})
		tr := New(c)
		defer tr.CloseIdle()
		first, err := tr.RoundTrip(request(t, "GET", "l", w.address, nil))
		if err != nil {
			t.Fatal(err)
		}
		io.ReadAll(first.Body)
		second, err := tr.RoundTrip(request(t, "GET", "l", w.address, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer second.Body.Close()
		first.Body.Close()
		if n, err := first.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%d bytes more of the first, %v", n, err)
		}
		if b, err := io.ReadAll(second.Body); err != nil || string(b) != "hello" || w.dials.Load() != 1 {
			t.Errorf("the second: %q, %v, on %d connections", b, err, w.dials.Load())
		}
	})
}
