package websocket

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// echo agrees and sends back what comes.
func echo(t *testing.T) sandbox {
	return func(c *net.TCPConn, br *bufio.Reader, head string) {
		io.WriteString(c, agree(t, head))
		io.Copy(c, br)
	}
}

// Field report K04.
func TestFramesOfEverySizeGoByUntouched(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		g := open(t, transport, "", echo(t))
		early := string(frame(0x82, true, "right behind the handshake"))
		s := dial(t, g, "8080", "/socket", early)
		if got := read(t, s, len(early)); got != early {
			t.Errorf("%q", got)
		}
		for i := range 300 { // small ones, each answered
			f := frame(0x82, true, strings.Repeat(string(rune('a'+i%26)), i))
			s.send(t, f)
			if got := read(t, s, len(f)); got != string(f) {
				t.Fatalf("frame %d came back as %.100q", i, got)
			}
		}
		// One of more than a megabyte, in pieces, as no window takes it at once.
		large := frame(0x82, true, strings.Repeat("0123456789abcdef", 80_000))
		for sent := 0; sent < len(large); {
			n := min(len(large)-sent, 64<<10)
			s.send(t, large[sent:sent+n])
			if got := read(t, s, n); got != string(large[sent:sent+n]) {
				t.Fatalf("the bytes after %d came back as %.100q", sent, got)
			}
			sent += n
		}
	})
}

func TestALargeFrameOfTheSandboxArrivesWhole(t *testing.T) {
	large := frame(0x82, false, strings.Repeat("fedcba9876543210", 150_000))
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		g := open(t, transport, "", func(c *net.TCPConn, br *bufio.Reader, head string) {
			io.WriteString(c, agree(t, head))
			c.Write(large)
			c.Write(goodbye(false, 1000, ""))
			io.Copy(io.Discard, br)
		})
		s := dial(t, g, "8080", "/socket", "")
		if got := read(t, s, len(large)); got != string(large) {
			t.Error("what arrived is not what was sent")
		}
	})
}

// Field report K05.
func TestTheAnswerAfterTheClientsEndIsDelivered(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		late := string(frame(0x81, false, "a late answer")) + string(goodbye(false, 1000, "done"))
		g := open(t, transport, "", func(c *net.TCPConn, br *bufio.Reader, head string) {
			io.WriteString(c, agree(t, head))
			if got, err := io.ReadAll(br); string(got) != "a question" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			<-time.After(300 * time.Millisecond)
			io.WriteString(c, late)
		})
		s := dial(t, g, "8080", "/socket", "")
		s.send(t, []byte("a question"))
		s.end(t)
		if got, err := io.ReadAll(s); string(got) != late || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// Field report K04.
func TestCloseCodesArriveInBothDirections(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		bye, answer := string(goodbye(true, 4002, "enough")), string(goodbye(false, 4001, "bye"))
		g := open(t, transport, "", func(c *net.TCPConn, br *bufio.Reader, head string) {
			io.WriteString(c, agree(t, head))
			got := make([]byte, len(bye))
			if _, err := io.ReadFull(br, got); string(got) != bye || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			io.WriteString(c, answer)
		})
		s := dial(t, g, "8080", "/socket", "")
		s.send(t, []byte(bye))
		if got := read(t, s, len(answer)); got != answer {
			t.Errorf("%q", got)
		}
		s.end(t)
		if rest, err := io.ReadAll(s); len(rest) != 0 || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// Field report K10. Caddy's limits of silence are for requests; a socket is none.
func TestAnIdleSocketIsLeftAlone(t *testing.T) {
	const short = "servers {\ntimeouts {\nread_body_idle 1s\nread_header 1s\nwrite_idle 1s\nidle 1s\n}\n}"
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		ping, pong := frame(0x89, false, "are you there"), frame(0x8a, true, "are you there")
		ponged := make(chan string, 1)
		g := open(t, transport, short, func(c *net.TCPConn, br *bufio.Reader, head string) {
			io.WriteString(c, agree(t, head))
			got := make([]byte, len(pong))
			for range 2 {
				<-time.After(2500 * time.Millisecond)
				c.Write(ping)
				n, _ := io.ReadFull(br, got)
				ponged <- string(got[:n])
			}
			io.Copy(io.Discard, br)
		})
		s := dial(t, g, "8080", "/socket", "")
		for range 2 {
			if got := read(t, s, len(ping)); got != string(ping) {
				t.Errorf("%q", got)
			}
			s.send(t, pong)
			if got := <-ponged; got != string(pong) {
				t.Errorf("%q", got)
			}
		}
	})
}

func TestALostSandboxIsToldInACloseFrame(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		hello := frame(0x81, false, "hello")
		g := open(t, transport, "", func(c *net.TCPConn, br *bufio.Reader, head string) {
			io.WriteString(c, agree(t, head))
			c.Write(hello)
			br.ReadByte()
			c.SetLinger(0)
		})
		s := dial(t, g, "8080", "/socket", "")
		read(t, s, len(hello))
		s.send(t, []byte("x"))
		if got := read(t, s, 4); got[0] != 0x88 || got[2:] != "\x03\xf3" { // 1011
			t.Errorf("%q", got)
		}
		s.send(t, goodbye(true, 1011, ""))
		s.end(t)
		if rest, err := io.ReadAll(s); !strings.Contains(string(rest), "may still be running") || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

func TestAClientThatLeavesEndsTheSandboxsSide(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		left := make(chan struct{})
		g := open(t, transport, "", func(c *net.TCPConn, br *bufio.Reader, head string) {
			io.WriteString(c, agree(t, head)+string(frame(0x81, false, "x")))
			io.Copy(io.Discard, br)
			close(left)
		})
		s := dial(t, g, "8080", "/socket", "")
		read(t, s, 3)
		s.leave()
		select {
		case <-left:
		case <-time.After(patience):
			t.Error("it goes on")
		}
	})
}

func TestAGatewayThatExitsSaysSo(t *testing.T) {
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		g := open(t, transport, "grace_period 3s\nservers {\nlistener_wrappers {\ne2b\n}\n}", func(c *net.TCPConn, br *bufio.Reader, head string) {
			io.WriteString(c, agree(t, head)+string(frame(0x81, false, "x")))
			io.Copy(io.Discard, br)
		})
		s := dial(t, g, "8080", "/socket", "")
		read(t, s, 3)
		g.Signal(syscall.SIGTERM)
		if got := read(t, s, 4); got[0] != 0x88 || got[2:] != "\x03\xe9" { // 1001
			t.Errorf("%q", got)
		}
		s.send(t, goodbye(true, 1001, ""))
		s.end(t)
		if rest, err := io.ReadAll(s); !strings.HasPrefix(string(rest), "The gateway is restarting") || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// Field report N01: a socket outlives the config that it began with.
func TestAReloadLeavesSocketsAlone(t *testing.T) {
	const global = "servers {\nlistener_wrappers {\ne2b\n}\n}"
	overBoth(t, func(t *testing.T, transport harness.Transport) {
		port := serve(t, echo(t))
		g := harness.Binary(t, configOf(global, port), transport)
		var sockets []socket
		for range 50 {
			sockets = append(sockets, dial(t, g, "8080", "/socket", ""))
		}
		f := frame(0x81, true, "are you there")
		for i := range 4 {
			g.Reload(strings.Replace(configOf(global, port), "keys off", fmt.Sprintf("keys off\ndial_timeout %ds", i+2), 1))
			for n, s := range sockets {
				s.send(t, f)
				if got := read(t, s, len(f)); got != string(f) {
					t.Fatalf("socket %d after reload %d: %q", n, i+1, got)
				}
			}
		}
	})
}
