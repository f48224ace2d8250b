package handlers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/websocket"
	"github.com/caddy-e2b/gateway/routing"
)

const handshake = "GET /files?path=/socket HTTP/1.1\r\n" + routingHeaders + "%s" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: https://a.example\r\nCookie: a=b\r\n\r\n"

const (
	upgrade  = "Connection: keep-alive, uPgrade\r\nUpgrade: WebSocket\r\n"
	switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: binary\r\n\r\n"
)

// text is a short frame of text, as a server sends it.
func text(s string) string { return "\x81" + string(rune(len(s))) + s }

// socket is a sandbox that answers a handshake and then does as told.
func (g *rig) socket(t *testing.T, then func(r *http.Request, c *net.TCPConn, br *bufio.Reader)) {
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		then(r, c.(*net.TCPConn), brw.Reader)
	}
}

// open sends a handshake, with more right behind it, and reads the answer.
func (g *rig) open(t *testing.T, headers, more string) (*net.TCPConn, *bufio.Reader, *http.Response) {
	t.Helper()
	c := g.dial(t)
	fmt.Fprintf(c, handshake+more, headers)
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, &http.Request{Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), br, resp
}

func read(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	b := make([]byte, n)
	if n, err := io.ReadFull(r, b); err != nil {
		t.Fatalf("%q, %v", b[:n], err)
	}
	return string(b)
}

// closing reads to the end and takes the close frame apart that is all that
// there is.
func closing(t *testing.T, r io.Reader) (code int, reason string) {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil || len(b) < 4 || b[0] != 0x88 || int(b[1]) != len(b)-2 {
		t.Fatalf("no close frame: %q, %v", b, err)
	}
	return int(binary.BigEndian.Uint16(b[2:])), string(b[4:])
}

// Field reports K01, K02 and K04.
func TestAWebSocketIsATunnel(t *testing.T) {
	g := newRig(t)
	var asked http.Header
	g.socket(t, func(r *http.Request, c *net.TCPConn, br *bufio.Reader) {
		asked = r.Header
		io.WriteString(c, switched+text("right behind"))
		io.Copy(c, br)
	})
	c, br, resp := g.open(t, upgrade, "\x81\x83abcd123")
	if resp.StatusCode != 101 || resp.Header.Get("Connection") != "Upgrade" || resp.Header.Get("Upgrade") != "websocket" ||
		resp.Header.Get("Sec-Websocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || resp.Header.Get("Sec-Websocket-Protocol") != "binary" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	for name, want := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Origin": "https://a.example", "Sec-Websocket-Version": "13"} {
		if got := asked[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := read(t, br, 14+9); got != text("right behind")+"\x81\x83abcd123" {
		t.Errorf("%q", got)
	}
	// Both directions at once, more than any buffer holds.
	sent := bytes.Repeat([]byte("\x82\xfe\x40\x00abcd"+strings.Repeat("x", 1<<14)), 500)
	go c.Write(sent)
	if got := read(t, br, len(sent)); got != string(sent) {
		t.Error("what came back is not what was sent")
	}
	goodbye := string(websocket.CloseFrame(4001, "bye"))
	io.WriteString(c, goodbye)
	c.CloseWrite()
	if rest, err := io.ReadAll(br); string(rest) != goodbye || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	g.wantEnd(t, cause.OK)
}

// Field report K05.
func TestTheEndOfOneDirectionDoesNotEndTheOther(t *testing.T) {
	g := newRig(t)
	g.socket(t, func(_ *http.Request, c *net.TCPConn, br *bufio.Reader) {
		io.WriteString(c, switched)
		got, _ := io.ReadAll(br)
		io.WriteString(c, text("late answer to "+string(got)))
	})
	c, br, _ := g.open(t, upgrade, "a question")
	c.CloseWrite()
	if rest, err := io.ReadAll(br); string(rest) != text("late answer to a question") || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	g.wantEnd(t, cause.OK)
}

func TestALostSandboxClosesItsWebSockets(t *testing.T) {
	goodbye := string(websocket.CloseFrame(1000, ""))
	for name, tc := range map[string]struct {
		sent   string // before the connection is lost
		state  routing.State
		err    error
		reason string // of the close frame, "" for none
		end    cause.Cause
	}{
		"gone":               {text("x"), 0, routing.ErrGone, "was not found", cause.SandboxGone},
		"paused":             {text("x"), routing.StatePaused, nil, "is paused", cause.SandboxPaused},
		"still there":        {"", routing.StateRunning, nil, "may still be running", cause.UpstreamReset},
		"inside a frame":     {text("x") + "\x82\x05ab", routing.StateRunning, nil, "", cause.UpstreamReset},
		"inside a head":      {"\x82\x7e\x01", 0, routing.ErrGone, "", cause.SandboxGone},
		"inside goodbye":     {goodbye[:1], 0, routing.ErrGone, "", cause.SandboxGone},
		"after goodbye":      {text("x") + goodbye, 0, routing.ErrGone, "", cause.OK},
		"no frames at all":   {"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 0, routing.ErrGone, "", cause.SandboxGone},
		"between two halves": {"\x01\x01a", 0, routing.ErrGone, "was not found", cause.SandboxGone},
	} {
		for how, polite := range map[string]bool{"reset": false, "fin": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				g := newRig(t)
				g.socket(t, func(_ *http.Request, c *net.TCPConn, _ *bufio.Reader) {
					io.WriteString(c, switched+tc.sent)
					g.registry.say(tc.state, tc.err)
					if !polite {
						c.SetLinger(0)
					}
				})
				c, br, _ := g.open(t, upgrade, "")
				if got := read(t, br, len(tc.sent)); got != tc.sent {
					t.Fatalf("%q", got)
				}
				if tc.reason == "" {
					if rest, err := io.ReadAll(br); len(rest) != 0 || err != nil {
						t.Errorf("%q, %v", rest, err)
					}
				} else if code, reason := closing(t, br); code != 1011 || !strings.Contains(reason, tc.reason) {
					// The reason is cut to what a close frame holds.
					if polite && tc.end == cause.UpstreamReset {
						return // told as an early end, see below
					}
					t.Errorf("%d %q", code, reason)
				}
				c.Close()
				want := tc.end
				if want == cause.UpstreamReset && polite {
					want = cause.UpstreamEOF
				}
				g.wantEnd(t, want)
			})
		}
	}
}

func TestTheGatewayClosesWebSocketsBetweenFrames(t *testing.T) {
	for name, tc := range map[string]struct {
		why    cause.Cause
		code   int
		reason string
	}{
		"killed": {cause.SandboxGone, 1011, "The sandbox a was not found"},
		"drain":  {cause.Drain, 1001, "The gateway is restarting"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			var sandbox *net.TCPConn
			ready, left := make(chan struct{}), make(chan struct{})
			g.socket(t, func(_ *http.Request, c *net.TCPConn, br *bufio.Reader) {
				io.WriteString(c, switched+"\x82\x0aabcde")
				sandbox = c
				close(ready)
				io.Copy(io.Discard, br)
				close(left)
			})
			_, br, _ := g.open(t, upgrade, "")
			read(t, br, 7)
			<-ready
			g.gateway.streams.end("a", tc.why)
			// The frame that is under way comes to its end, and no half of
			// another follows.
			io.WriteString(sandbox, "fghij\x82\x05too")
			if got := read(t, br, 5); got != "fghij" {
				t.Errorf("%q", got)
			}
			if code, reason := closing(t, br); code != tc.code || !strings.HasPrefix(reason, tc.reason) {
				t.Errorf("%d %q", code, reason)
			}
			<-left
			g.wantEnd(t, tc.why)
		})
	}
}

func TestADrainClosesWebSocketsAndWaitsForThem(t *testing.T) {
	g := newRig(t)
	g.socket(t, func(_ *http.Request, c *net.TCPConn, br *bufio.Reader) {
		io.WriteString(c, switched+text("x"))
		io.Copy(io.Discard, br)
	})
	c, br, _ := g.open(t, upgrade, "")
	read(t, br, 3)
	drained := make(chan error, 1)
	go func() { drained <- g.gateway.Drain(t.Context(), PlanDrain(3*time.Second)) }()
	if code, reason := closing(t, br); code != 1001 || !strings.HasPrefix(reason, "The gateway is restarting") {
		t.Errorf("%d %q", code, reason)
	}
	c.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
	g.wantEnd(t, cause.Drain)
}

func TestAFrameThatDoesNotEndIsNotWaitedForLong(t *testing.T) {
	g := newRig(t)
	g.socket(t, func(_ *http.Request, c *net.TCPConn, br *bufio.Reader) {
		io.WriteString(c, switched+"\x82\x0aabcde")
		io.Copy(io.Discard, br)
	})
	_, br, _ := g.open(t, upgrade, "")
	read(t, br, 7)
	g.gateway.streams.end("a", cause.Drain)
	if rest, err := io.ReadAll(br); len(rest) != 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	g.wantEnd(t, cause.Drain)
}

func TestAClientThatLeavesEndsItsWebSocket(t *testing.T) {
	g := newRig(t)
	left := make(chan error, 1)
	g.socket(t, func(_ *http.Request, c *net.TCPConn, br *bufio.Reader) {
		io.WriteString(c, switched)
		io.CopyN(c, br, 2)
		_, err := io.Copy(io.Discard, br)
		left <- err
	})
	c, br, _ := g.open(t, upgrade, "")
	// An exchange shows that net/http does not read the connection any more: it
	// would be told of the reset, and the tunnel of an end.
	io.WriteString(c, "\x89\x00")
	if _, err := io.ReadFull(br, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	asked := g.registry.lookups()
	c.SetLinger(0)
	c.Close()
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Fatal("the sandbox's side goes on")
	}
	g.wantEnd(t, cause.ClientGone)
	if n := g.registry.lookups() - asked; n != 0 {
		t.Errorf("the registry was asked %d times why the client has left", n)
	}
}

// Nobody reads the connection of a client that has ended its direction, so
// nobody sees it die.
func TestASilentSandboxDoesNotKeepTheWebSocketOfADeadClient(t *testing.T) {
	g := newRig(t, func(o *Options) { o.ClientStall = 200 * time.Millisecond })
	over := make(chan struct{})
	g.socket(t, func(_ *http.Request, c *net.TCPConn, br *bufio.Reader) {
		io.WriteString(c, switched)
		<-over // it takes no notice of the client's end
	})
	c, _, _ := g.open(t, upgrade, "")
	c.Close()
	select {
	case out := <-g.outcomes:
		if out.End != cause.ClientGone {
			t.Errorf("%v (%v)", out.End, out.Err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it lives on")
	}
	close(over)
}

// Field report K06.
func TestARefusedUpgradeIsAnOrdinaryAnswer(t *testing.T) {
	g := newRig(t)
	g.proxy = answerWith(403, unary, `{"code":403,"message":"no"}`)
	c, br, resp := g.open(t, upgrade, "")
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != 403 || string(body) != `{"code":403,"message":"no"}` || err != nil || resp.Close {
		t.Errorf("%d %q %v", resp.StatusCode, body, err)
	}
	g.wantEnd(t, cause.OK)
	// And the connection goes on.
	g.proxy = answerWith(200, unary, "{}")
	fmt.Fprintf(c, handshake, "")
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
		t.Error(resp, err)
	}
}

// Field report M02.
func TestNothingButWebSocketIsTunnelled(t *testing.T) {
	for _, headers := range []string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: tcp\r\n", "Upgrade: websocket\r\n",
	} {
		g := newRig(t)
		var asked http.Header
		g.proxy = func(w http.ResponseWriter, r *http.Request) { asked = r.Header; io.WriteString(w, "plain") }
		_, _, resp := g.open(t, headers, "")
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "plain" {
			t.Errorf("%q: %d %q", headers, resp.StatusCode, body)
		}
		for _, name := range []string{"Connection", "Upgrade", "Http2-Settings"} {
			if asked[name] != nil {
				t.Errorf("%q: %s: %q went on", headers, name, asked[name])
			}
		}
	}
	// Nor does the sandbox choose another protocol.
	g := newRig(t)
	g.socket(t, func(_ *http.Request, c *net.TCPConn, _ *bufio.Reader) {
		io.WriteString(c, strings.Replace(switched, "websocket", "h2c", 1)+"raw")
	})
	if _, _, resp := g.open(t, upgrade, ""); resp.StatusCode != 500 {
		t.Errorf("%d", resp.StatusCode)
	}
	g.wantEnd(t, cause.UpstreamInvalid)
}

func TestWhatGoesThroughAWebSocketIsAUseOfTheSandbox(t *testing.T) {
	g := newRig(t)
	g.socket(t, func(_ *http.Request, c *net.TCPConn, br *bufio.Reader) {
		io.WriteString(c, switched)
		for {
			if _, err := io.ReadFull(br, make([]byte, 3)); err != nil {
				return
			}
			io.WriteString(c, text("pong"))
		}
	})
	c, br, _ := g.open(t, upgrade, "")
	g.gateway.moved()
	for range 3 {
		if routes := g.gateway.moved(); len(routes) != 0 {
			t.Errorf("%d sandboxes are in use while nothing goes by", len(routes))
		}
		io.WriteString(c, "\x89\x00x")
		read(t, br, 6)
		if routes := g.gateway.moved(); len(routes) != 1 || routes[0].SandboxID != "a" {
			t.Errorf("%v are in use", routes)
		}
	}
}
