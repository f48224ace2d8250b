package rock

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// door is a client of a sandbox's port-forward.
type door struct {
	*testing.T
	conn net.Conn
	r    *bufio.Reader
}

// rockletOf is the address in the sandbox's record.
func rockletOf(t *testing.T, s *Sandbox) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(mappedPort(t, s, "22555"))
}

func mappedPort(t *testing.T, s *Sandbox, inside string) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ports, ok := s.document()["port_mapping"].(map[string]int)
	if !ok || ports[inside] == 0 {
		t.Fatalf("port %s is not mapped: %v", inside, ports)
	}
	return ports[inside]
}

func knock(t *testing.T, address, port string) *door {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	d := &door{T: t, conn: conn, r: bufio.NewReader(conn)}
	io.WriteString(conn, "GET /portforward?port="+port+" HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	resp, err := http.ReadResponse(d.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The key and its answer are those of RFC 6455 section 1.3.
	if resp.StatusCode != 101 || resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("handshake: %d %v", resp.StatusCode, resp.Header)
	}
	return d
}

// send writes one frame with a mask of zeros.
func (d *door) send(op byte, payload string) {
	d.Helper()
	frame := []byte{0x80 | op, 0x80 | 126}
	frame = append(binary.BigEndian.AppendUint16(frame, uint16(len(payload))), 0, 0, 0, 0)
	if _, err := d.conn.Write(append(frame, payload...)); err != nil {
		d.Fatal(err)
	}
}

// next is the next frame: its opcode and payload.
func (d *door) next() (byte, string) {
	d.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(d.r, head[:2]); err != nil {
		d.Fatal(err)
	}
	n := int(head[1])
	if n == 126 {
		if _, err := io.ReadFull(d.r, head[2:]); err != nil {
			d.Fatal(err)
		}
		n = int(binary.BigEndian.Uint16(head[2:]))
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(d.r, payload); err != nil {
		d.Fatal(err)
	}
	return head[0] & 0x0f, string(payload)
}

func (d *door) wantClose(code uint16, reason string) {
	d.Helper()
	op, payload := d.next()
	if op != opClose || len(payload) < 2 || binary.BigEndian.Uint16([]byte(payload)) != code || !strings.Contains(payload[2:], reason) {
		d.Fatalf("frame %x %q, want close %d %q", op, payload, code, reason)
	}
}

func (d *door) wantEnd(reset bool) {
	d.Helper()
	_, err := io.ReadAll(d.r)
	if errors.Is(err, syscall.ECONNRESET) != reset || !reset && err != nil {
		d.Fatalf("the connection ended with %v", err)
	}
}

func listen(t *testing.T, s *Sandbox, port int) net.Listener {
	t.Helper()
	l, err := s.Listen(port)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTheRockletForwardsBytesInPiecesOfFourKilobytes(t *testing.T) {
	s := newRig(t, Options{Rocklet: true}).create("fwd")
	l := listen(t, s, 8000)
	d := knock(t, rockletOf(t, s), "8000")
	app := accept(t, l)
	d.send(opBinary, "up")
	b := make([]byte, 2)
	if _, err := io.ReadFull(app, b); err != nil || string(b) != "up" {
		t.Fatal(string(b), err)
	}
	sent := bytes.Repeat([]byte("down"), 5000)
	go app.Write(sent)
	var got []byte
	for len(got) < len(sent) {
		op, payload := d.next()
		if op != opBinary || len(payload) > forwardChunk {
			t.Fatalf("frame %x of %d bytes", op, len(payload))
		}
		got = append(got, payload...)
	}
	if !bytes.Equal(got, sent) {
		t.Fatal("other bytes")
	}
	if s.Forwards() != 1 {
		t.Errorf("%d forwards", s.Forwards())
	}
	app.Close()
	d.wantClose(closeNormal, "")
	d.send(opClose, "\x03\xe8")
	d.wantEnd(false)
}

func TestTheRockletSwitchesFirstAndLooksAtThePortAfterwards(t *testing.T) {
	s := newRig(t, Options{Rocklet: true}).create("ports")
	address := rockletOf(t, s)
	for port, want := range map[string]uint16{"22": closePolicy, "1023": closePolicy, "22555": closePolicy, "65536": closePolicy, "9": closePolicy, "9000": closeInternal} {
		d := knock(t, address, port)
		d.wantClose(want, "")
		d.send(opClose, "\x03\xe8")
		d.wantEnd(false)
	}
	knock(t, address, "9001").wantClose(closeInternal, "Failed to connect")
}

func TestTheEndOfOneSideOfAForwardEndsTheOther(t *testing.T) {
	s := newRig(t, Options{Rocklet: true}).create("end")
	l := listen(t, s, 8000)
	d := knock(t, rockletOf(t, s), "8000")
	app := accept(t, l)
	d.send(opClose, "\x03\xe8")
	if _, err := app.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the app sees %v", err)
	}
	d.wantClose(closeNormal, "")
}

func TestAMessageThatIsTooLongEndsAForward(t *testing.T) {
	s := newRig(t, Options{Rocklet: true}).create("long")
	l := listen(t, s, 8000)
	d := knock(t, rockletOf(t, s), "8000")
	accept(t, l)
	d.conn.Write(append([]byte{0x82, 0xff}, "\x00\x00\x00\x00\x00\x10\x00\x01\x00\x00\x00\x00"...))
	d.wantClose(closeTooBig, "")
}

func TestTheEndOfTheContainerResetsItsForwards(t *testing.T) {
	s := newRig(t, Options{Rocklet: true}).create("crash")
	l := listen(t, s, 8000)
	d := knock(t, rockletOf(t, s), "8000")
	accept(t, l)
	s.Crash()
	d.wantEnd(true)
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener inside says %v", err)
	}
	if _, err := s.Listen(8001); !errors.Is(err, errDead) {
		t.Errorf("a dead container listens: %v", err)
	}
}

func TestAPublishedPortRefusesUntilSomethingListens(t *testing.T) {
	s := newRig(t, Options{Published: []int{8000}}).create("pub")
	address := "127.0.0.1:" + strconv.Itoa(mappedPort(t, s, "8000"))
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v", err)
	}
	for range 2 {
		l := listen(t, s, 8000)
		if _, err := s.Listen(8000); err == nil {
			t.Error("two servers have one port")
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
	}
}

func TestAForwardWhosePingsAreNotAnsweredIsClosed(t *testing.T) {
	s := newRig(t, Options{Rocklet: true, RockletPing: 50 * time.Millisecond}).create("ping")
	l := listen(t, s, 8000)
	d := knock(t, rockletOf(t, s), "8000")
	app := accept(t, l)
	for n := range 3 {
		op, payload := d.next()
		if op != opPing || payload != strconv.Itoa(n) {
			t.Fatalf("frame %x %q", op, payload)
		}
		if n < 2 {
			d.send(opPong, payload)
		}
	}
	d.wantClose(closeInternal, "keepalive ping timeout")
	if _, err := app.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the app sees %v", err)
	}
}

// Commands of the double have the machine's network.
func TestTheRockletFindsTheServersOfCommandsOnlyWhenAskedTo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	closed := newRig(t, Options{Rocklet: true}).create("closed")
	knock(t, rockletOf(t, closed), port).wantClose(closeInternal, "")
	open := newRig(t, Options{Rocklet: true, HostNetwork: true}).create("open")
	knock(t, rockletOf(t, open), port)
	accept(t, l)
}
