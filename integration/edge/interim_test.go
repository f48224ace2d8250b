package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// Field report H09: a client that asks before it sends hears one 100, whatever the
// sandbox does, and none when its body is not wanted.
func TestAClientThatAsksBeforeItSendsIsAnsweredOnce(t *testing.T) {
	const (
		proceed = "HTTP/1.1 100 Continue\r\n\r\n"
		denied  = "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n" + `{"code":401,"message":"no"}`
	)
	for name, tc := range map[string]struct {
		script func(r *http.Request, c net.Conn) bool
		status string
		sent   bool // the body
	}{
		"late": {func(r *http.Request, c net.Conn) bool {
			<-time.After(300 * time.Millisecond)
			_, _ = io.WriteString(c, proceed)
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, answer200)
			return true
		}, "200", true},
		"twice": {func(r *http.Request, c net.Conn) bool {
			_, _ = io.WriteString(c, proceed+proceed)
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, proceed+answer200)
			return true
		}, "200", true},
		"never": {func(r *http.Request, c net.Conn) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, answer200)
			return true
		}, "200", true},
		"no": {func(_ *http.Request, c net.Conn) bool {
			_, _ = io.WriteString(c, denied)
			return false
		}, "401", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, harness.Cleartext, "")
			g.script = tc.script
			const size = 1 << 20
			c := g.connect(t)
			fmt.Fprintf(c, "POST /files?path=/x HTTP/1.1\r\n"+target+"Expect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size)
			br := bufio.NewReader(c)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tc.sent {
				if resp.StatusCode != http.StatusContinue || len(resp.Header) != 0 {
					t.Fatalf("%d %v", resp.StatusCode, resp.Header)
				}
				if _, err := c.Write(make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				if resp, err = http.ReadResponse(br, nil); err != nil {
					t.Fatal(err)
				}
			}
			b, err := io.ReadAll(resp.Body)
			if fmt.Sprint(resp.StatusCode) != tc.status || len(b) == 0 || err != nil {
				t.Errorf("%d %q, %v", resp.StatusCode, b, err)
			}
			if got := len(g.take()); (got >= size) != tc.sent {
				t.Errorf("%d bytes reached the sandbox", got)
			}
		})
	}
}

// connect opens a connection to the gateway that ends with the test.
func (g *rig) connect(t *testing.T) net.Conn {
	t.Helper()
	_, address, _ := strings.Cut(g.URL, "://")
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Field report H10: what an app says before its answer stays between it and the
// gateway, and so do the names that it gives to the connection.
func TestWhatAnAppSaysBeforeItsAnswerIsNotPassedOn(t *testing.T) {
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-A\r\nX-A: hop\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n"
	const answer = "HTTP/1.1 200 OK\r\nConnection: X-A\r\nX-A: hop\r\nKeep-Alive: timeout=5\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nhi"
	for _, transport := range []harness.Transport{harness.Cleartext, harness.TLS2} {
		t.Run(string(transport), func(t *testing.T) {
			g := openPreviews(t, transport, hints+hints+answer)
			var got string
			if transport == harness.TLS2 {
				c := g.DialH2()
				s := c.Wait(c.Fields("", ":method", "GET", ":scheme", "https", ":authority", "8080-a.box.test", ":path", "/"))
				if s.Status != "200" || s.Body != "hi" || s.Reset != nil {
					t.Errorf("%+v", s)
				}
				got = strings.ToLower(fmt.Sprint(s.Header))
			} else {
				answer := g.raw(t, "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nConnection: close\r\n\r\n")
				if status(answer) != "200" || strings.Count(answer, "HTTP/1.1 ") != 1 || !strings.HasSuffix(answer, "\r\n\r\nhi") {
					t.Errorf("%q", answer)
				}
				got = strings.ToLower(answer)
			}
			if strings.Contains(got, "hop") || strings.Contains(got, "keep-alive") || !strings.Contains(got, "x-own") {
				t.Error(got)
			}
		})
	}
}
