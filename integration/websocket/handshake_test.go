package websocket

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// Field reports K01, K02, K04 and L04.
func TestAHandshakeArrivesAsItWasSent(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		heads := make(chan string, 1)
		g := open(t, transport, "", func(c *net.TCPConn, _ *bufio.Reader, head string) {
			heads <- head
			io.WriteString(c, agree(t, head, "Sec-WebSocket-Protocol: base64\r\n", "Sec-WebSocket-Extensions: permessage-deflate\r\n", "X-App: 1\r\n"))
			io.Copy(io.Discard, c)
		})
		const target = "/files?path=%2Fa%20b&x=1+2;3&y=%C3%BC"
		s := dial(t, g, "8080", target, "",
			"Origin", "https://elsewhere.example", "Sec-WebSocket-Protocol", "binary, base64", "Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits",
			"Cookie", "session=1; theme=dark", "Authorization", "Bearer app", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		if s.status() != 101 || s.header().Get("Sec-Websocket-Protocol") != "base64" || s.header().Get("Sec-Websocket-Extensions") != "permessage-deflate" ||
			s.header().Get("X-App") != "1" {
			t.Errorf("%d %v", s.status(), s.header())
		}
		head := <-heads
		if line, _, _ := strings.Cut(head, "\r\n"); line != "GET "+target+" HTTP/1.1" {
			t.Errorf("%q", line)
		}
		got := headers(t, head)
		for name, want := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13",
			"Origin": "https://elsewhere.example", "Sec-Websocket-Protocol": "binary, base64",
			"Sec-Websocket-Extensions": "permessage-deflate; client_max_window_bits",
			"Cookie":                   "session=1; theme=dark", "Authorization": "Bearer app", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		} {
			if values := got[name]; len(values) != 1 || values[0] != want {
				t.Errorf("%s: %q", name, values)
			}
		}
		if key := got["Sec-Websocket-Key"]; len(key) != 1 || len(key[0]) != 24 {
			t.Errorf("the key is %q", key)
		}
		if transport == harness.TLS2 {
			// What HTTP/2 has no use for (RFC 8441 section 5).
			for _, name := range []string{"Connection", "Upgrade", "Sec-Websocket-Accept"} {
				if s.header().Get(name) != "" {
					t.Errorf("%s: %q", name, s.header().Get(name))
				}
			}
		}
	})
}

// Field report K09: a VNC server may have room for 4 KiB of headers, all told.
func TestALongHandshakeGrowsByLittle(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		heads := make(chan string, 1)
		g := open(t, transport, "", func(c *net.TCPConn, _ *bufio.Reader, head string) {
			heads <- head
			io.WriteString(c, agree(t, head))
		})
		dial(t, g, "8080", "/files", "", "Cookie", "c="+strings.Repeat("x", 3582), "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https")
		head := <-heads
		if len(head) > 4094 || strings.Count(head, "203.0.113.7") != 0 || strings.Count(strings.ToLower(head), "x-forwarded-for") != 1 {
			t.Errorf("%d bytes: %s", len(head), strings.ReplaceAll(head, strings.Repeat("x", 3582), "…"))
		}
	})
}

// Field report K06.
func TestARefusalIsAnOrdinaryAnswer(t *testing.T) {
	const body = `{"error":"not today"}`
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		g := open(t, transport, "", func(c *net.TCPConn, br *bufio.Reader, head string) {
			for head != "" { // it keeps the connection
				io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 21\r\nX-App: 1\r\n\r\n"+body)
				head = readHead(br)
			}
		})
		s := dial(t, g, "8080", "/files", "")
		if got, err := io.ReadAll(s); s.status() != http.StatusForbidden || string(got) != body || err != nil || s.header().Get("X-App") != "1" {
			t.Errorf("%d %q, %v", s.status(), got, err)
		}
	})
}

// Over HTTP/2 the status alone says that a WebSocket is open.
func TestAnAnswerThatDoesNotSwitchOpensNothing(t *testing.T) {
	for name, answer := range map[string]string{
		"a page":         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"nothing":        "HTTP/1.1 204 No Content\r\n\r\n",
		"another key":    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
		"another switch": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, harness.TLS2, "", func(c *net.TCPConn, _ *bufio.Reader, _ string) { io.WriteString(c, answer) })
			s := dial(t, g, "8080", "/files", "")
			if got, err := io.ReadAll(s); s.status() != 500 || err != nil || !strings.Contains(string(got), `"code":500`) {
				t.Errorf("%d %q, %v", s.status(), got, err)
			}
		})
	}
}

// RFC 8441 section 3. Field report K03.
func TestTheBinaryOffersWebSocketsOverHTTP2(t *testing.T) {
	g := open(t, harness.TLS2, "", func(*net.TCPConn, *bufio.Reader, string) {})
	c := g.DialH2()
	c.Until("its settings", func() bool { return c.Setting(http2.SettingMaxConcurrentStreams) != 0 })
	if c.Setting(http2.SettingEnableConnectProtocol) != 1 {
		t.Error("it does not")
	}
}

func TestConnectOpensNothingButAWebSocketOfASandbox(t *testing.T) {
	g := open(t, harness.TLS2, "", func(*net.TCPConn, *bufio.Reader, string) { t.Error("the sandbox was asked") })
	ids := []string{"e2b-sandbox-id", "a", "e2b-sandbox-port", "49983"}
	for name, fields := range map[string][]string{
		"a tunnel":            {":method", "CONNECT", ":authority", "a.example:443"},
		"UDP":                 {":method", "CONNECT", ":protocol", "connect-udp", ":scheme", "https", ":authority", "a", ":path", "/files"},
		"the control plane":   {":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "a", ":path", "/sandboxes"},
		"another path":        {":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "a", ":path", "/socket"},
		"ROCK's own door":     {":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "a", ":path", "/apis/envs/sandbox/v1/sandboxes/a/portforward?port=1"},
		"one of GET":          {":method", "GET", ":protocol", "websocket", ":scheme", "https", ":authority", "a", ":path", "/files"},
		"headers of HTTP/1.1": {":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/files", "connection", "upgrade", "upgrade", "websocket"},
	} {
		c := g.DialH2()
		s := c.Wait(c.Fields("", append(fields, ids...)...))
		if s.Status == "200" || s.Status == "101" || s.Status == "" && s.Reset == nil && c.Closed() == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Servers say so of the switch, although they must not (RFC 9110 section 8.6), and
// clients of HTTP/1.1 do not mind. Over HTTP/2 it would be the length of all that comes.
func TestASwitchHasNoLength(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		for _, length := range []string{"Content-Length: 0\r\n", "Content-Length: 3\r\n"} {
			g := open(t, transport, "", func(c *net.TCPConn, br *bufio.Reader, head string) {
				io.WriteString(c, agree(t, head, length))
				io.Copy(c, br)
			})
			s := dial(t, g, "8080", "/socket", "")
			if s.status() != 101 || s.header().Get("Content-Length") != "" {
				t.Fatalf("%d %v", s.status(), s.header())
			}
			f := frame(0x82, true, "a word")
			s.send(t, f)
			if got := read(t, s, len(f)); got != string(f) {
				t.Errorf("%q", got)
			}
			s.leave()
		}
	})
}

// A stream that names a protocol and does not connect is no WebSocket, and no request
// that HTTP/1.1 could carry (RFC 8441 section 4).
func TestAProtocolIsForConnectOnly(t *testing.T) {
	asked := make(chan string, 1)
	g := open(t, harness.TLS2, "", func(_ *net.TCPConn, _ *bufio.Reader, head string) { asked <- head })
	for _, method := range []string{"GET", "POST"} {
		c := g.DialH2()
		id := c.Open(":method", method, ":protocol", "websocket", ":scheme", "https", ":authority", "a.example", ":path", "/x",
			"e2b-sandbox-id", "a", "e2b-sandbox-port", "8080")
		c.Send(id, "", true)
		c.Until("an answer", func() bool {
			st := c.Stream(id)
			return st.Status != "" || st.Reset != nil || c.Closed() != nil
		})
		if st := c.Stream(id); st.Status != "400" && st.Reset == nil {
			t.Errorf("%s: %s %s", method, st.Status, st.Body)
		}
		select {
		case head := <-asked:
			t.Errorf("%s: the sandbox got %q", method, head)
		default:
		}
	}
}
