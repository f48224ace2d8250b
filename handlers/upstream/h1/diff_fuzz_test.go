package h1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The client is compared with that of the standard library: what a server may say
// must mean the same to both, and what a caller may say must be the same to a server.

func newReader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

// standard makes a client of the standard library with the same bounds.
func standard(dial func() *fakeConn) *http.Transport {
	return &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
		ReadBufferSize:         readBuffer,
	}
}

var errReset = errors.New("reset")

// outcome is what a call has led to.
type outcome struct {
	resp    *http.Response
	body    string
	failed  bool // before there was an answer
	cut     bool // in its body
	writes  bool // the body can be written to
	interim []int
	kept    bool // the connection
	more    bool // there was more to read
}

func (o *outcome) take(resp *http.Response, err error) {
	if o.failed = err != nil; o.failed {
		return
	}
	o.resp = resp
	_, o.writes = resp.Body.(io.Writer)
	b, err := io.ReadAll(resp.Body)
	o.body, o.cut = string(b), err != nil
}

func (o *outcome) traced(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			o.interim = append(o.interim, code)
			return nil
		},
		PutIdleConn: func(err error) { o.kept = err == nil },
	}))
}

func FuzzAnswersMeanTheSame(f *testing.F) {
	log.SetOutput(io.Discard) // net/http tells of unsolicited answers
	f.Cleanup(func() { log.SetOutput(os.Stderr) })
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nup to the end",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nnow for something else",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"HTTP/1.1 099 Low\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nPragma: no-cache\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/2.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
	} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			f.Add([]byte(answer), method, false)
			f.Add([]byte(answer), method, true)
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, method string, reset bool) {
		if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT"}, method) {
			return
		}
		end := io.EOF
		if reset {
			end = errReset
		}
		request := &http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "h:1", Path: "/"}, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

		var ours, theirs outcome
		fake := newFake(atOnce(string(answer)), end)
		c, _ := client(t, nil, func() *fakeConn { return fake })
		ours.take(c.RoundTrip(ours.traced(request)))
		ours.kept, ours.more = c.pool.idle.Load() == 1, moreThanAnAnswer(answer, request)
		if ours.resp != nil {
			ours.resp.Body.Close()
		}
		c.CloseIdle()
		if !fake.isClosed() {
			t.Error("the connection was not closed")
		}

		tr := standard(func() *fakeConn { return newFake(atOnce(string(answer)), end) })
		theirs.take(tr.RoundTrip(theirs.traced(request)))
		if theirs.resp != nil {
			theirs.resp.Body.Close()
		}
		tr.CloseIdleConnections()
		ours.compare(t, &theirs)
	})
}

// moreThanAnAnswer reports bytes behind the answer.
func moreThanAnAnswer(b []byte, r *http.Request) bool {
	br := newReader(b)
	for {
		resp, err := http.ReadResponse(br, r)
		if err != nil {
			return false
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 {
			io.Copy(io.Discard, resp.Body)
			_, err = br.ReadByte()
			return err == nil
		}
	}
}

// compare holds our outcome to that of the standard library.
func (o *outcome) compare(t *testing.T, theirs *outcome) {
	t.Helper()
	if o.failed != theirs.failed || o.cut != theirs.cut || o.writes != theirs.writes || o.body != theirs.body || !slices.Equal(o.interim, theirs.interim) {
		t.Fatalf("ours: failed %v, cut %v, writes %v, interim %v, %q\ntheirs: failed %v, cut %v, writes %v, interim %v, %q",
			o.failed, o.cut, o.writes, o.interim, o.body, theirs.failed, theirs.cut, theirs.writes, theirs.interim, theirs.body)
	}
	// They keep a connection first and look at what else came then.
	if o.kept && !theirs.kept || theirs.kept && !o.kept && !o.more {
		t.Fatalf("the connection was kept: %v, by them: %v", o.kept, theirs.kept)
	}
	if o.failed {
		return
	}
	a, b := *o.resp, *theirs.resp
	a.Body, b.Body, a.Request, b.Request = nil, nil, nil, nil
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("ours: %+v\ntheirs: %+v", a, b)
	}
}

// said is a request as a caller makes it.
type said struct {
	method, host, target, query string
	name, value                 string // of a header
	body                        string
	length                      int64
	chunked, close, memory      bool
	trailer, trailerValue       string
}

func (s said) request() (*http.Request, *closes) {
	body := &closes{Reader: strings.NewReader(s.body), closed: make(chan struct{}, 10)}
	r := &http.Request{
		Method: s.method, Host: s.host, URL: &url.URL{Scheme: "http", Host: "h:1", Opaque: s.target, RawQuery: s.query},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"test"}, s.name: {s.value, "second"}},
		Body:   body, ContentLength: s.length, Close: s.close,
	}
	if s.memory {
		r.GetBody = func() (io.ReadCloser, error) { return body, nil }
	}
	if s.chunked {
		r.TransferEncoding = []string{"chunked"}
	}
	if s.trailer != "" {
		r.Trailer = http.Header{s.trailer: {s.trailerValue}}
	}
	return r, body
}

type closes struct {
	io.Reader
	closed chan struct{}
}

func (c *closes) Close() error { c.closed <- struct{}{}; return nil }

func FuzzRequestsLookTheSame(f *testing.F) {
	f.Add("GET", "host", "/path", "q=1", "A", "b", "", int64(0), uint8(0), "", "")
	f.Add("POST", "host:80", "/", "", "Content-Type", " x ", "hello", int64(5), uint8(0), "", "")
	f.Add("POST", "host", "/", "", "Expect", "100-continue", "hello", int64(5), uint8(4), "", "")
	f.Add("PUT", "h", "//x", "", "A", "", "hello", int64(-1), uint8(0), "A", "b")
	f.Add("PATCH", "[fe80::1%25eth0]:1", "/", "", "Host", "other", "hello", int64(0), uint8(1), "A", "b")
	f.Add("DELETE", "bücher.example", "*", "", "Content-Length", "99", "", int64(-1), uint8(2), "", "")
	f.Add("OPTIONS", "a b", "/ x", "", "Transfer-Encoding", "chunked", "x", int64(3), uint8(0), "", "")
	f.Add("HEAD", "a\r\nb", "/\r\n", "", "Connection", "close", "x", int64(-1), uint8(2), "Trailer", "b")
	f.Add("", "", "/", "", "A b", "\x00", "x", int64(1), uint8(7), "A b", "\n")
	f.Fuzz(func(t *testing.T, method, host, target, query, name, value, body string, length int64, flags uint8, trailer, trailerValue string) {
		if method == http.MethodConnect || target == "" || length < -1 || strings.EqualFold(name, "Expect") {
			return // nobody sends it, or it takes time
		}
		if http.CanonicalHeaderKey(name) != name && setByUs(name) != passed || http.CanonicalHeaderKey(trailer) != trailer {
			return // they would pass on a framing of the caller's own
		}
		s := said{method, host, target, query, name, value, body, length, flags&1 != 0, flags&2 != 0, flags&4 != 0, trailer, trailerValue}
		const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

		fake := newFake(wholeOrBroken(answer), io.EOF)
		c, _ := client(t, nil, func() *fakeConn { return fake })
		r, own := s.request()
		resp, ourErr := c.RoundTrip(r)
		if ourErr == nil {
			resp.Body.Close()
		}
		<-own.closed
		ours := fake.all
		if len(own.closed) > 0 {
			t.Error("the body was closed twice")
		}

		fake = newFake(wholeOrBroken(answer), io.EOF)
		tr := standard(func() *fakeConn { return fake })
		r, _ = s.request()
		resp, theirErr := tr.RoundTrip(r)
		if theirErr == nil {
			resp.Body.Close()
		}
		tr.CloseIdleConnections()

		if !readable(ours) || !readable(fake.all) {
			// It was answered in its midst, and what became of the rest is a race.
			if len(ours) > 0 { // else the body was found wanting before
				sameHead(t, ours, fake.all)
			}
			return
		}
		if !s.chunked && s.length > 0 && int64(len(s.body)) > s.length {
			if ourErr == nil { // theirs may be answered before it finds out
				t.Fatalf("%q was sent with a length of %d", s.body, s.length)
			}
			return
		}
		if (ourErr == nil) != (theirErr == nil) {
			t.Fatalf("ours: %v, %q\ntheirs: %v, %q", ourErr, ours, theirErr, fake.all)
		}
		if ourErr != nil {
			return
		}
		sameRequest(t, ours, fake.all)
	})
}

// readable reports a request that a server can read, if it comes to its end.
func readable(wire []byte) bool {
	_, err := parse(wire)
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF
}

// wholeOrBroken answers what is whole, and what no server could read.
func wholeOrBroken(answer string) func([]byte) []byte {
	return func(written []byte) []byte {
		if _, err := parse(written); err != nil && readable(written) {
			return nil
		}
		return []byte(answer)
	}
}

// sameHead holds the head of one request to that of another, and returns what follows.
// The order of the headers may differ.
func sameHead(t *testing.T, ours, theirs []byte) (ourBody, theirBody []byte) {
	t.Helper()
	ourHead, ourBody, _ := bytes.Cut(ours, []byte("\r\n\r\n"))
	theirHead, theirBody, _ := bytes.Cut(theirs, []byte("\r\n\r\n"))
	a, b := strings.Split(string(ourHead), "\r\n"), strings.Split(string(theirHead), "\r\n")
	slices.Sort(a[1:])
	slices.Sort(b[1:])
	if !slices.Equal(a, b) {
		t.Fatalf("ours:   %q\ntheirs: %q", a, b)
	}
	return ourBody, theirBody
}

// sameRequest holds one request to another. The sizes of chunks may differ.
func sameRequest(t *testing.T, ours, theirs []byte) {
	t.Helper()
	ourBody, theirBody := sameHead(t, ours, theirs)
	if bytes.Equal(ourBody, theirBody) {
		return
	}
	one, err1 := parse(ours)
	other, err2 := parse(theirs)
	if err1 != nil || err2 != nil || !bytes.Equal(one, other) {
		t.Fatalf("ours:   %q, %v\ntheirs: %q, %v", ourBody, err1, theirBody, err2)
	}
}
