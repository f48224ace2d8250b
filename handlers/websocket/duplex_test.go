package websocket

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowClient is the answer of a stream of HTTP/2 that takes nothing while stuck. A
// deadline is one for the stream: it ends it, whether something is written or not.
type slowClient struct {
	http.ResponseWriter
	mu    sync.Mutex
	timer *time.Timer
	ended chan struct{}
	stuck bool
	read  bool // a deadline for reading was set
}

func newSlowClient() *slowClient {
	return &slowClient{ResponseWriter: httptest.NewRecorder(), ended: make(chan struct{})}
}

func (s *slowClient) SetReadDeadline(time.Time) error { s.read = true; return nil }

func (s *slowClient) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.timer = nil; !t.IsZero() {
		s.timer = time.AfterFunc(time.Until(t), func() { close(s.ended) })
	}
	return nil
}

func (s *slowClient) Write(p []byte) (int, error) {
	if s.stuck {
		<-s.ended
	}
	select {
	case <-s.ended:
		return 0, errors.New("the stream is closed")
	default:
		return len(p), nil
	}
}

func (s *slowClient) FlushError() error { return nil }

func duplex(s *slowClient) *Duplex {
	return &Duplex{Body: strings.NewReader(""), Answer: s, Control: http.NewResponseController(s)}
}

func TestADeadlineHoldsWhileSomethingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowClient()
		d := duplex(s)
		for range 3 {
			d.SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(d, "x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // a socket may be silent
		}
		s.stuck = true
		d.SetWriteDeadline(time.Now().Add(time.Minute))
		begun := time.Now()
		if _, err := io.WriteString(d, "x"); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestAnEarlierDeadlineHoldsForAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowClient()
		s.stuck = true
		d := duplex(s)
		d.SetWriteDeadline(time.Now().Add(time.Hour))
		time.AfterFunc(time.Second, func() { d.SetWriteDeadline(time.Now().Add(time.Second)) })
		begun := time.Now()
		if _, err := io.WriteString(d, "x"); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestAnErrorBeforeTheDeadlineIsNoDeadline(t *testing.T) {
	s := newSlowClient()
	close(s.ended)
	d := duplex(s)
	d.SetWriteDeadline(time.Now().Add(time.Hour))
	if _, err := io.WriteString(d, "x"); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if d.Close() != nil || !s.read {
		t.Error("closing does not end what is read")
	}
	s.SetWriteDeadline(time.Time{})
}

// RFC 8441 section 4, and RFC 6455 section 4.
func TestAnExtendedRequestBecomesAnUpgrade(t *testing.T) {
	ask := func(method, protocol string, major int) *http.Request {
		r := httptest.NewRequest(method, "/files?x=1", strings.NewReader("data"))
		r.ProtoMajor, r.ContentLength = major, -1
		r.Header = http.Header{"Sec-Websocket-Version": {"13"}}
		if protocol != "" {
			r.Header[":protocol"] = strings.Split(protocol, ",")
		}
		return r
	}
	for _, tc := range []struct {
		method, protocol string
		major            int
		want             bool
	}{
		{"CONNECT", "websocket", 2, true}, {"CONNECT", "", 2, false}, {"CONNECT", "connect-udp", 2, false}, {"CONNECT", "websocket,websocket", 2, false},
		{"CONNECT", "WebSocket", 2, false}, {"GET", "websocket", 2, false}, {"CONNECT", "websocket", 1, false}, {"CONNECT", "websocket", 3, false},
	} {
		if got := Extended(ask(tc.method, tc.protocol, tc.major)); got != tc.want {
			t.Errorf("%v: %v", tc, got)
		}
	}
	r := ask("CONNECT", "websocket", 2)
	u := AsUpgrade(r)
	if !Requested(u) || u.Method != "GET" || u.ContentLength != 0 || u.Header[":protocol"] != nil || !switches(u.Header) || u.Header.Get("Sec-Websocket-Version") != "13" {
		t.Errorf("%v %v", u.Method, u.Header)
	}
	if r.Method != "CONNECT" || r.Header.Get("Sec-Websocket-Key") != "" {
		t.Error("the request itself was changed")
	}
	if sent, _ := io.ReadAll(Stream(u)); string(sent) != "data" || Stream(r) != nil {
		t.Errorf("%q", sent)
	}
	if other := AsUpgrade(ask("CONNECT", "websocket", 2)); other.Header.Get("Sec-Websocket-Key") == u.Header.Get("Sec-Websocket-Key") {
		t.Error("two handshakes have one key")
	}
	resp := &http.Response{Header: http.Header{}}
	if Accepted(u, resp) || !Accepted(r, resp) {
		t.Error("who has not understood the handshake is believed, or asked where the client sees it")
	}
	// The example of RFC 6455 section 1.3.
	u.Body.(*stream).key = "dGhlIHNhbXBsZSBub25jZQ=="
	resp.Header.Set("Sec-Websocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
	if !Accepted(u, resp) {
		t.Error("the right answer is not accepted")
	}
}
