package tunnel

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// socket is one end of a WebSocket.
type socket struct {
	net.Conn
	r      *bufio.Reader
	masked bool // this end masks
}

// send writes one frame; a mask is of zeros.
func (s *socket) send(op byte, payload string) error {
	frame := binary.BigEndian.AppendUint64([]byte{0x80 | op, 127}, uint64(len(payload)))
	if s.masked {
		frame[1] |= 0x80
		frame = append(frame, 0, 0, 0, 0)
	}
	_, err := s.Write(append(frame, payload...))
	return err
}

// next reads one frame as send writes it, or as a server closes.
func (s *socket) next() (op byte, payload string, err error) {
	head := make([]byte, 2, 14)
	if _, err = io.ReadFull(s.r, head); err != nil {
		return 0, "", err
	}
	n := uint64(head[1] & 0x7f)
	if n == 127 {
		if _, err = io.ReadFull(s.r, head[2:10]); err != nil {
			return 0, "", err
		}
		n = binary.BigEndian.Uint64(head[2:10])
	}
	if head[1]&0x80 != 0 {
		n += 4
	}
	b := make([]byte, n)
	if _, err = io.ReadFull(s.r, b); head[1]&0x80 != 0 {
		b = b[4:]
	}
	return head[0] & 0x0f, string(b), err
}

const (
	binaryFrame = 0x2
	closeFrame  = 0x8
)

// dialSocket opens a WebSocket to a port of a sandbox.
func dialSocket(e *harness.Endpoint, id string, port int) (*socket, error) {
	_, address, _ := strings.Cut(e.URL, "://")
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	if e.CAFile != "" {
		config := e.TLS()
		config.ServerName = "127.0.0.1"
		c = tls.Client(c, config)
	}
	fmt.Fprintf(c, "GET /files?path=/socket HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %d\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n", id, port)
	s := &socket{c, bufio.NewReader(c), true}
	resp, err := http.ReadResponse(s.r, nil)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%s", resp.Status)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// serveSockets switches every request on a port to a WebSocket.
func serveSockets(t testing.TB, box *rock.Sandbox, port int, talk func(*socket)) {
	t.Helper()
	l := listen(t, box, port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s := &socket{c, bufio.NewReader(c), false}
				if _, err := http.ReadRequest(s.r); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
				talk(s)
			}()
		}
	}()
}

// echo answers every message, and a close frame with one, until the client leaves.
func echo(s *socket) {
	for {
		op, payload, err := s.next()
		if err != nil || s.send(op, payload) != nil || op == closeFrame {
			return
		}
	}
}

const sockets = 100

// talk sends messages of many sizes through a WebSocket, and says goodbye.
func talk(e *harness.Endpoint, port int, who int) error {
	s, err := dialSocket(e, "a", port)
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range 17 {
		sent := strings.Repeat(fmt.Sprintf("%d/%d ", who, i), 1<<i/8+1)
		failed := make(chan error, 1)
		go func() { failed <- s.send(binaryFrame, sent) }()
		op, got, err := s.next()
		if werr := <-failed; err != nil || werr != nil || op != binaryFrame || got != sent {
			return fmt.Errorf("message %d: opcode %d, %d bytes of %d, %v, %v", i, op, len(got), len(sent), err, werr)
		}
	}
	if err := s.send(closeFrame, "\x0f\xa1bye"); err != nil {
		return err
	}
	if op, got, err := s.next(); err != nil || op != closeFrame || got != "\x0f\xa1bye" {
		return fmt.Errorf("goodbye: opcode %d, %q, %v", op, got, err)
	}
	if _, err := s.r.ReadByte(); err != io.EOF {
		return fmt.Errorf("after goodbye: %v", err)
	}
	return nil
}

func talkAll(t testing.TB, e *harness.Endpoint, port int) {
	t.Helper()
	var all sync.WaitGroup
	for who := range sockets {
		all.Go(func() {
			if err := talk(e, port, who); err != nil {
				t.Errorf("socket %d: %v", who, err)
			}
		})
	}
	all.Wait()
}

// Field report K04.
func TestManyWebSocketsGoThroughTheRockletAtOnce(t *testing.T) {
	for _, transport := range []harness.Transport{harness.Cleartext, harness.TLS1} {
		t.Run(string(transport), func(t *testing.T) {
			s := build(t, "")
			g := inprocess.Start(t, s.config, transport)
			box := s.create(t, "a")
			serveSockets(t, box, hidden, echo)
			talkAll(t, &g.Endpoint, hidden)
			eventually(t, "all port-forwards have ended", func() bool { return box.Forwards() == 0 })
		})
	}
}

func TestTheServiceClosesAWebSocketWithItsOwnCode(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config)
	serveSockets(t, s.create(t, "a"), hidden, func(s *socket) { s.send(closeFrame, "\x0f\xa1bye") })
	c, err := dialSocket(&g.Endpoint, "a", hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if op, got, err := c.next(); err != nil || op != closeFrame || got != "\x0f\xa1bye" {
		t.Errorf("opcode %d, %q, %v", op, got, err)
	}
}

func TestASandboxThatDiesClosesItsWebSocketsWith1011(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config)
	box := s.create(t, "a")
	serveSockets(t, box, hidden, echo)
	c, err := dialSocket(&g.Endpoint, "a", hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.kill(t, "a")
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	op, got, err := c.next()
	if err != nil || op != closeFrame || len(got) < 2 || binary.BigEndian.Uint16([]byte(got)) != 1011 || !strings.Contains(got, "was not found") {
		t.Errorf("opcode %d, %q, %v", op, got, err)
	}
}

// The rocklet's web server gives up who does not answer its pings.
func TestASilentWebSocketOutlivesThePingsOfTheRocklet(t *testing.T) {
	const ping = 200 * time.Millisecond
	s := build(t, "", func(o *rock.Options) { o.RockletPing = ping })
	g := inprocess.Start(t, s.config)
	serveSockets(t, s.create(t, "a"), hidden, func(s *socket) {
		silence := time.NewTimer(10 * ping)
		defer silence.Stop()
		<-silence.C
		s.send(closeFrame, "\x0f\xa1bye")
	})
	c, err := dialSocket(&g.Endpoint, "a", hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if op, got, err := c.next(); err != nil || op != closeFrame || got != "\x0f\xa1bye" {
		t.Errorf("opcode %d, %q, %v", op, got, err)
	}
}

// The rocklet passes no end of one direction on, so a client that ends its own
// has ended both.
func TestAClientThatLeavesEndsThePortForward(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config)
	box := s.create(t, "a")
	left := make(chan error, 1)
	serveSockets(t, box, hidden, func(s *socket) {
		_, _, err := s.next()
		left <- err
	})
	c, err := dialSocket(&g.Endpoint, "a", hidden)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-left; err == nil {
		t.Error("the service was not told")
	}
	eventually(t, "the port-forward has ended", func() bool { return box.Forwards() == 0 })
}
