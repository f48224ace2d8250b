package handlers

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// An HTTP/1.0 client is told the length of no body that is relayed as it comes:
// only a broken connection tells it that one was cut.
func TestACutBodyLooksCutToAnHTTP10Client(t *testing.T) {
	for name, tc := range map[string]struct{ method, kind, upload string }{
		"file":                   {"GET", "application/octet-stream", ""},
		"events":                 {"GET", "text/event-stream", ""},
		"with an upload halfway": {"POST", "application/octet-stream", "Content-Length: 1000000\r\n\r\nabc"},
	} {
		for _, secure := range []bool{false, true} {
			g := newRig(t)
			g.proxy = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.kind)
				reset(w, "half of it")
			}
			var complaints bytes.Buffer
			s := httptest.NewUnstartedServer(g.Server.Config.Handler)
			s.Config.ErrorLog = log.New(&complaints, "", 0)
			dial := func() (net.Conn, error) { return net.Dial("tcp", s.Listener.Addr().String()) }
			if secure {
				s.StartTLS()
				dial = func() (net.Conn, error) {
					return tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
				}
			} else {
				s.Start()
			}
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(20 * time.Second))
			upload := tc.upload
			if upload == "" {
				upload = "\r\n"
			}
			fmt.Fprintf(c, "%s /files?path=/x HTTP/1.0\r\n%s%s", tc.method, routingHeaders, upload)
			b, err := io.ReadAll(c)
			if _, body, _ := strings.Cut(string(b), "\r\n\r\n"); body != "half of it" || err == nil {
				t.Errorf("%s, over TLS %t: %q, %v", name, secure, b, err)
			}
			select {
			case out := <-g.outcomes:
				if out.End != cause.Truncated || !out.Abort {
					t.Errorf("%s, over TLS %t: %+v", name, secure, out)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("%s, over TLS %t: the call goes on", name, secure)
			}
			c.Close()
			s.Close()
			if complaints.Len() > 0 {
				t.Errorf("%s, over TLS %t: %s", name, secure, complaints.String())
			}
		}
	}
}

// exchange sends a call over HTTP/1.1 to a sandbox that answers with the given
// bytes, and returns what the client gets.
func (g *rig) exchange(t *testing.T, method, target, contentType, answer string) (head, body string, trailer http.Header, err error) {
	t.Helper()
	g.cluster.Proxy = answersAtOnce(t, answer)
	t.Cleanup(g.cluster.Proxy.Close)
	r, err := http.NewRequestWithContext(t.Context(), method, g.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {contentType}, "E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var h bytes.Buffer
	_ = resp.Header.Write(&h)
	for name := range resp.Trailer {
		fmt.Fprintf(&h, "Trailer: %s\n", name)
	}
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d\n%s", resp.StatusCode, &h), string(b), resp.Trailer, err
}

// RFC 9110 section 6.5.1, field report H11.
func TestTrailersAreNoWayAroundTheRulesOfHeaders(t *testing.T) {
	for name, announced := range map[string]string{"announced": "Trailer: Location, Set-Cookie, Upgrade, X-Hop, Www-Authenticate, X-Own\r\n", "unannounced": ""} {
		g := newRig(t)
		head, body, trailer, err := g.exchange(t, "GET", "/files?path=x", "", "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: X-Hop\r\n"+announced+
			"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nLocation: http://10.0.0.1/\r\nSet-Cookie: a=b\r\nUpgrade: x\r\nX-Hop: x\r\nWww-Authenticate: Basic\r\nRetry-After: 1\r\nX-Own: kept\r\n\r\n")
		if body != "abc" || err != nil || len(trailer) != 1 || trailer.Get("X-Own") != "kept" {
			t.Errorf("%s: %q, %v, %v", name, body, trailer, err)
		}
		if strings.Contains(head, "Location") || strings.Contains(head, "X-Hop") {
			t.Errorf("%s: %s", name, head)
		}
	}
}

// A status that clients cannot read is none.
func TestAGRPCStatusIsOneNumber(t *testing.T) {
	message := frame(0, "x")
	for name, tc := range map[string]struct{ head, trailers, want string }{
		"a number":            {"", "Grpc-Status: 5\r\nGrpc-Message: m\r\nX-Own: kept\r\n", "5"},
		"a word":              {"", "Grpc-Status: banana\r\n", "10"},
		"two numbers":         {"", "Grpc-Status: 0\r\nGrpc-Status: 13\r\n", "10"},
		"nothing":             {"", "Grpc-Status:\r\n", "10"},
		"a word in the head":  {"Grpc-Status: banana\r\n", "Grpc-Status: 0\r\n", "0"},
		"two in the head":     {"Grpc-Status: 0\r\nGrpc-Status: 0\r\n", "", "10"},
		"a word in the head,": {"Grpc-Status: banana\r\n", "", "10"},
	} {
		g := newRig(t)
		head, body, trailer, err := g.exchange(t, "POST", start, "application/grpc", "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\n"+tc.head+
			"Transfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n%s\r\n0\r\n%s\r\n", len(message), message, tc.trailers))
		if got := trailer["Grpc-Status"]; body != message || err != nil || len(got) != 1 || got[0] != tc.want || strings.Contains(head, "Grpc-Status: ") && !strings.Contains(head, "Trailer: Grpc-Status") {
			t.Errorf("%s: %q, %v, %v\n%s", name, body, trailer, err, head)
		}
		if name == "a number" && (trailer.Get("Grpc-Message") != "m" || trailer.Get("X-Own") != "kept") {
			t.Errorf("%s: %v", name, trailer)
		}
	}
}

// Some servers of gRPC take a client that does not want trailers for a proxy that loses them.
func TestEnvdHearsOfAClientOfGRPCThatItTakesTrailers(t *testing.T) {
	for contentType, want := range map[string]string{"application/grpc": "trailers", stream: ""} {
		g := newRig(t)
		heard := make(chan string, 1)
		g.proxy = func(_ http.ResponseWriter, r *http.Request) { heard <- r.Header.Get("Te") }
		g.call(t, "POST", start, contentType, frame(0, "{}"), "Te", "deflate, trailers")
		if got := <-heard; got != want {
			t.Errorf("%s: TE is %q", contentType, got)
		}
	}
}

// Connect's unary calls without side effects may be made with GET, and name their codec in the query.
func TestAUnaryCallByGetIsAnsweredInItsCodec(t *testing.T) {
	for query, want := range map[string]int{"?connect=v1&encoding=json&message=%7B%7D": 200, "?connect=v1&encoding=proto&message=": 500, "": 500} {
		g := newRig(t)
		g.proxy = answerWith(200, unary, `{"entry":{}}`)
		if r := g.call(t, "GET", stat+query, "", ""); r.status != want {
			t.Errorf("%q: %s", query, shown(r))
		}
	}
}
