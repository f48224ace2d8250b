package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

func h2cRequest(t *testing.T, lifecycle, address string, body io.Reader) *http.Request {
	t.Helper()
	r := request(t, http.MethodPost, lifecycle, address, body)
	r.URL.Scheme = SchemeH2C
	r.Header.Set("Te", "trailers")
	return r
}

// h2cServer is a server that speaks HTTP/2 and nothing else.
func h2cServer(t *testing.T, h http.HandlerFunc) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// Field report H11.
func TestTrailersPassOverHTTP2WithoutTLS(t *testing.T) {
	address := h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" || r.URL.Path != "/x" {
			t.Errorf("%s %s %v", r.Proto, r.URL, r.Header)
		}
		io.Copy(w, r.Body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	resp, err := tr.RoundTrip(h2cRequest(t, "l", address, strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != "body" || resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%q, %v, trailers %v", b, err, resp.Trailer)
	}
}

// Field report F05, as over HTTP/1.1.
func TestStreamsShareConnectionsWithinOneLifeAndNeverAcrossLives(t *testing.T) {
	address := h2cServer(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })
	tr := New(Config{})
	defer tr.CloseIdle()
	from := func(lifecycle string) string {
		resp, err := tr.RoundTrip(h2cRequest(t, lifecycle, address, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	first, again, other := from("life1"), from("life1"), from("life2")
	if first != again || first == other {
		t.Errorf("life1 at %s and %s, life2 at %s", first, again, other)
	}
}

// Field report H06. What a client does not take of one answer holds back no other on the
// same connection.
func TestAnAnswerThatNobodyReadsStopsNoOther(t *testing.T) {
	address := h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Large") == "" {
			io.WriteString(w, r.RemoteAddr)
			return
		}
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	large := h2cRequest(t, "l", address, nil)
	large.Header.Set("X-Large", "yes")
	resp, err := tr.RoundTrip(large)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil { // it is under way
		t.Fatal(err)
	}
	<-time.After(300 * time.Millisecond) // until its window is full
	from := map[string]bool{}
	begun := time.Now()
	for range 50 {
		resp, err := tr.RoundTrip(h2cRequest(t, "l", address, nil))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if from[string(b)] = true; err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took > 10*time.Second || len(from) != 1 {
		t.Errorf("50 calls took %v, on %d connections", took, len(from))
	}
}

// Field report H05. A next hop that says it has not looked at a request may be
// believed, but the body is on its way already and cannot be had again.
func TestAStreamThatIsRefusedIsNotSentAgain(t *testing.T) {
	for name, refuse := range map[string]func(*http2.Framer, uint32){
		"refused": func(f *http2.Framer, id uint32) { f.WriteRSTStream(id, http2.ErrCodeRefusedStream) },
		// net/http would repeat it, too.
		"a protocol error": func(f *http2.Framer, id uint32) { f.WriteRSTStream(id, http2.ErrCodeProtocol) },
		"going away":       func(f *http2.Framer, _ uint32) { f.WriteGoAway(0, http2.ErrCodeNo, nil) },
	} {
		for body, make := range map[string]func() io.Reader{
			"nothing":  func() io.Reader { return nil },
			"a buffer": func() io.Reader { return bytes.NewReader([]byte("body")) },
			"a stream": func() io.Reader { return struct{ io.Reader }{strings.NewReader("body")} },
		} {
			t.Run(name+", "+body, func(t *testing.T) {
				var seen atomic.Int32
				address := refusing(t, &seen, refuse)
				tr := New(Config{})
				defer tr.CloseIdle()
				resp, err := tr.RoundTrip(h2cRequest(t, "l", address, make()))
				if err == nil {
					resp.Body.Close()
				}
				var dial *DialError
				if err == nil || errors.As(err, &dial) || seen.Load() != 1 {
					t.Errorf("%v, the request came %d times", err, seen.Load())
				}
			})
		}
	}
}

// refusing is a server that refuses every request once its body has come.
func refusing(t *testing.T, seen *atomic.Int32, refuse func(*http2.Framer, uint32)) (address string) {
	t.Helper()
	return loopback.Serve(t, func(c net.Conn) {
		defer c.Close()
		io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		f := http2.NewFramer(c, c)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				seen.Add(1)
				if frame.StreamEnded() {
					refuse(f, frame.StreamID)
				}
			case *http2.DataFrame:
				if frame.StreamEnded() {
					refuse(f, frame.StreamID)
				}
			}
		}
	})
}

// Field report A04: a stream that is reset politely has not come to its end.
func TestAResetWithoutAnErrorIsNoEnd(t *testing.T) {
	const ok = "\x88" // :status 200, RFC 7541 appendix A
	var seen atomic.Int32
	address := refusing(t, &seen, func(f *http2.Framer, id uint32) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(ok), EndHeaders: true})
		f.WriteData(id, false, []byte("message"))
		f.WriteRSTStream(id, http2.ErrCodeNo)
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	resp, err := tr.RoundTrip(h2cRequest(t, "l", address, strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); !strings.HasPrefix("message", string(b)) || err == nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestADialForHTTP2ThatFailsSaysSo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = New(Config{}).RoundTrip(h2cRequest(t, "l", l.Addr().String(), strings.NewReader("body")))
	var dial *DialError
	if !errors.As(err, &dial) || !Refused(err) {
		t.Errorf("got %v", err)
	}
}
