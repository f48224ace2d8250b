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
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// openPreviews is a gateway whose sandboxes have hosts below box.test: a, b, and
// p, whose creator wants a token asked for. All of them are the upstream.
func openPreviews(t *testing.T, transport harness.Transport, answer string) *rig {
	t.Helper()
	u := newUpstream(t, answer)
	caddyfile := u.direct("127.0.0.1", "allow 127.0.0.0/8")
	_, port, _ := strings.Cut(u.address, ":")
	more := ""
	for _, id := range []string{"b", "p"} {
		more += fmt.Sprintf("sandbox %s {\nhost 127.0.0.1\nport 49983 %s\nport 8080 %s\n", id, port, port)
		if id == "p" {
			more += "private\n"
		}
		more += "}\n"
	}
	caddyfile = strings.Replace(caddyfile, "keys off", "keys off\ndomain box.test", 1)
	caddyfile = strings.Replace(caddyfile, "registry static {", "registry static {\n"+more, 1)
	return &rig{u, inprocess.Start(t, caddyfile, transport)}
}

// Contract checklist 12; field reports E06, E10, E11 and E13.
func TestARequestToAPreviewHostArrivesAsItWasSent(t *testing.T) {
	g := openPreviews(t, harness.Cleartext, answer200)
	for _, line := range []string{
		"GET / HTTP/1.1", "GET /init HTTP/1.1", "GET //init HTTP/1.1", "POST /sandboxes HTTP/1.1", "PROPFIND /a%2Fb/%2e/c//d?x=%2B&y=1+2&z&z=&metadata=k%3Dv%2526w HTTP/1.1",
		"GET /files/../x;y?%zz HTTP/1.1", "OPTIONS /x HTTP/1.1", "GET /? HTTP/1.1",
	} {
		for _, host := range []string{"8080-a.box.test", "8080-A.Box.TEST.", "8080-a.box.test:8443"} {
			answer := g.raw(t, line+"\r\nHost: "+host+"\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 8080\r\nX-Own: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			got := g.take()
			if status(answer) != "200" || !strings.HasPrefix(got, line+"\r\nHost: "+host+"\r\n") || !strings.Contains(got, "\r\nX-Own: 1\r\n") || strings.Contains(got, "E2b-Sandbox") ||
				strings.Count(got, "X-Forwarded-Host: "+host+"\r\n") != 1 {
				t.Errorf("%s at %s: %.100q, arrived as %q", line, host, answer, got)
			}
		}
	}
}

// Field reports E03, E07, E08 and M15; contract checklist 4, 6 and 8.
func TestNoRequestReachesAPortThatItsHostDoesNotName(t *testing.T) {
	g := openPreviews(t, harness.Cleartext, answer200)
	const end = "Content-Length: 0\r\n\r\n"
	for name, request := range map[string]string{
		"two hosts":                "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nHost: 8080-b.box.test\r\n",
		"two hosts, alike":         "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nHost: 8080-a.box.test\r\n",
		"two hosts in one":         "GET / HTTP/1.1\r\nHost: 8080-a.box.test, 8080-b.box.test\r\n",
		"another id":               "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nE2b-Sandbox-Id: b\r\n",
		"another port":             "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nE2b-Sandbox-Port: 49983\r\n",
		"envd's, by another port":  "GET /health HTTP/1.1\r\nHost: 49983-a.box.test\r\nE2b-Sandbox-Port: 8080\r\n",
		"two ids":                  "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Id: b\r\n",
		"a URL of another port":    "GET http://49983-a.box.test/init HTTP/1.1\r\nHost: 8080-a.box.test\r\n",
		"a URL of another gateway": "GET http://8080-a.evil.test/ HTTP/1.1\r\nHost: 8080-a.box.test\r\n",
		"another domain":           "GET / HTTP/1.1\r\nHost: 8080-a.evil.test\r\n",
		"a domain behind it":       "GET / HTTP/1.1\r\nHost: 8080-a.box.test.evil.test\r\n",
		"a longer domain":          "GET / HTTP/1.1\r\nHost: 8080-a.xbox.test\r\n",
		"a label before it":        "GET / HTTP/1.1\r\nHost: a.8080-a.box.test\r\n",
		"no domain":                "GET / HTTP/1.1\r\nHost: 8080-a\r\n",
		"another name":             "GET / HTTP/1.1\r\nHost: www.box.test\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 8080\r\n",
		"a user":                   "GET / HTTP/1.1\r\nHost: x@8080-a.box.test\r\n",
		"a percent":                "GET / HTTP/1.1\r\nHost: 8080%2da.box.test\r\n",
		"a sign":                   "GET / HTTP/1.1\r\nHost: +8080-a.box.test\r\n",
		"a zero":                   "GET / HTTP/1.1\r\nHost: 08080-a.box.test\r\n",
		"port 0":                   "GET / HTTP/1.1\r\nHost: 0-a.box.test\r\n",
		"too great a port":         "GET / HTTP/1.1\r\nHost: 65536-a.box.test\r\n",
		"the shell's":              "GET / HTTP/1.1\r\nHost: 22-a.box.test\r\n",
		"the agent's":              "GET /apis HTTP/1.1\r\nHost: 22555-a.box.test\r\n",
		"no id":                    "GET / HTTP/1.1\r\nHost: 8080-.box.test\r\n",
		"envd's management":        "POST /init HTTP/1.1\r\nHost: 49983-a.box.test\r\n",
		"the control plane":        "POST /sandboxes HTTP/1.1\r\nHost: 49983-a.box.test\r\n",
		"ROCK's own":               "GET /apis/envs/sandbox/v1/get_token HTTP/1.1\r\nHost: 49983-a.box.test\r\n",
		"a private one":            "GET / HTTP/1.1\r\nHost: 8080-p.box.test\r\n",
	} {
		g.refused(t, name, request+end, "400", "403", "404", "421")
	}
	for name, request := range map[string]string{
		"a port that is not mapped":   "GET / HTTP/1.1\r\nHost: 9999-a.box.test\r\n",
		"a sandbox that is not there": "GET / HTTP/1.1\r\nHost: 8080-nowhere.box.test\r\n",
	} {
		g.refused(t, name, request+end, "502")
	}
	// Contract checklist 1: with a host that names nothing the headers do.
	if answer := g.raw(t, "GET /x HTTP/1.1\r\nHost: 10.0.0.8:3002\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 8080\r\nConnection: close\r\n\r\n"); status(answer) != "200" {
		t.Errorf("%q", answer)
	}
}

// Field report M15.
func TestOverHTTP2APreviewHostIsTheOneThatIsAskedFor(t *testing.T) {
	g := openPreviews(t, harness.TLS2, answer200)
	ask := func(authority string, more ...string) []string {
		return append([]string{":method", "GET", ":scheme", "https", ":authority", authority, ":path", "/init?a=%2B"}, more...)
	}
	c := g.DialH2()
	for _, id := range []string{"a", "b"} { // on one connection
		s := c.Wait(c.Fields("", ask("8080-"+id+".box.test", "te", "trailers", "cookie", "a=b")...))
		if got := g.take(); s.Status != "200" || !strings.HasPrefix(got, "GET /init?a=%2B HTTP/1.1\r\nHost: 8080-"+id+".box.test\r\n") || !strings.Contains(got, "\r\nTe: trailers\r\n") ||
			!strings.Contains(got, "X-Forwarded-Proto: https\r\n") || !strings.Contains(got, "Cookie: a=b\r\n") {
			t.Errorf("%+v, upstream %q", s, got)
		}
	}
	for name, f := range map[string][]string{
		"another host":    ask("8080-a.box.test", "host", "8080-b.box.test"),
		"another id":      ask("8080-a.box.test", "e2b-sandbox-id", "b"),
		"another port":    ask("8080-a.box.test", "e2b-sandbox-port", "49983"),
		"envd's":          ask("49983-a.box.test"),
		"the shell's":     ask("22-a.box.test"),
		"two authorities": append(ask("8080-a.box.test"), ":authority", "8080-b.box.test"),
	} {
		g.refusedH2(t, name, "", f...)
	}
}

// Field reports E12, H13 and L03.
func TestAnAppsAnswerComesBackAsItWasGiven(t *testing.T) {
	g := openPreviews(t, harness.Cleartext, "")
	g.answers("HTTP/1.1 302 Found\r\nLocation: http://" + g.address + "/login?a=%2F\r\nSet-Cookie: a=1; Expires=Wed, 01 Dec 2027 00:00:00 GMT\r\nSet-Cookie: b=2\r\n" +
		"Date: Tue, 01 Dec 2026 00:00:00 GMT\r\nServer: own\r\nAccess-Control-Allow-Origin: https://own.test\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
	answer := g.raw(t, "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nOrigin: https://a.test\r\nConnection: close\r\n\r\n")
	for line, want := range map[string]int{
		"HTTP/1.1 302 Found\r\n": 1, "\r\nLocation: http://8080-a.box.test/login?a=%2F\r\n": 1, "\r\nSet-Cookie: ": 2, "\r\nDate: ": 1, "\r\nServer: ": 1, "\r\nServer: own\r\n": 1,
		"\r\nAccess-Control-Allow-Origin: ": 1, "\r\nAccess-Control-Allow-Origin: https://own.test\r\n": 1, "Access-Control-Expose-Headers": 0, g.address: 0, "\r\n\r\nhi": 1,
	} {
		if strings.Count(answer, line) != want {
			t.Errorf("%q is not there %d times in %q", line, want, answer)
		}
	}
}

// Field report M02: a socket to an app is a WebSocket and nothing else, and what
// comes right behind the handshake is the app's. Field report E10.
func TestASocketToAPreviewHostIsToTheByte(t *testing.T) {
	const answer101 = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
	g := openPreviews(t, harness.Cleartext, answer101)
	const behind = "\x81\x82\x00\x00\x00\x00hi\x88\x80\x00\x00\x00\x00"
	for _, tc := range []struct {
		host, upgrade string
		want          int
	}{
		{"8080-a.box.test", "websocket", 101}, {"8080-a.box.test", "h2c", 500}, {"8080-p.box.test", "websocket", 403},
	} {
		got := g.switched(t, "GET /ws HTTP/1.1\r\nHost: "+tc.host+"\r\nConnection: Upgrade\r\nUpgrade: "+tc.upgrade+
			"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"+behind)
		if got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
	g.Stop()
	got := g.rest()
	if strings.Count(got, behind) != 1 || strings.Count(got, "GET /ws HTTP/1.1\r\nHost: 8080-a.box.test\r\n") != 2 {
		t.Errorf("%q", got)
	}
}

// switched sends a handshake, with more behind it, waits for the head of the answer
// and ends its direction.
func (g *rig) switched(t *testing.T, handshake string) int {
	t.Helper()
	_, address, _ := strings.Cut(g.URL, "://")
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, handshake); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c)
	return resp.StatusCode
}
