package websocket

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

const patience = 15 * time.Second

// sandbox is what a test makes of the connection of a WebSocket, at the sandbox's end. head
// is the handshake as it came, without the last, empty line.
type sandbox func(c *net.TCPConn, br *bufio.Reader, head string)

// open starts a gateway in front of a sandbox "a", whose ports 49983 and 8080 are
// served by do. global are lines of Caddy's global options.
func open(t *testing.T, transport harness.Transport, global string, do sandbox) *harness.Process {
	t.Helper()
	return harness.Binary(t, configOf(global, serve(t, do)), transport)
}

// serve does with each connection to a port as a sandbox does.
func serve(t *testing.T, do sandbox) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				if head := readHead(br); head != "" {
					do(c.(*net.TCPConn), br, head)
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func configOf(global string, port int) string {
	return fmt.Sprintf(`{
	%s
	e2b {
		keys off
		registry static {
			sandbox a {
				host 127.0.0.1
				port 49983 %[2]d
				port 8080 %[2]d
			}
		}
		cluster test {
			admin http://127.0.0.1:1
			proxy http://127.0.0.1:1
			mode direct
			allow 127.0.0.1/32
		}
	}
}
:80 {
	e2b
}
`, global, port)
}

func readHead(br *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return ""
		}
		if line == "\r\n" {
			return head.String()
		}
		head.WriteString(line)
	}
}

// headers are those of a head.
func headers(t *testing.T, head string) http.Header {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\r\n")))
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	return r.Header
}

// agree is the answer to a handshake, with more headers.
func agree(t *testing.T, head string, more ...string) string {
	t.Helper()
	sum := sha1.Sum([]byte(headers(t, head).Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n" + strings.Join(more, "") + "\r\n"
}

// socket is a WebSocket at the client's end.
type socket interface {
	io.Reader
	send(t *testing.T, b []byte)
	end(t *testing.T) // of the client's direction
	leave()           // without a word
	status() int      // 101 for an open one, whatever the protocol says
	header() http.Header
}

// dial asks for a WebSocket on a port of the sandbox, with more headers ("name", "value",
// …) and, if early is not empty, bytes right behind the handshake.
func dial(t *testing.T, g *harness.Process, port, target, early string, more ...string) socket {
	t.Helper()
	if g.Transport == harness.TLS2 {
		return dialH2(t, g, port, target, early, more)
	}
	return dialH1(t, g, port, target, early, more)
}

type socketH1 struct {
	net.Conn
	br   *bufio.Reader
	resp *http.Response
}

func dialH1(t *testing.T, g *harness.Process, port, target, early string, more []string) socket {
	t.Helper()
	_, address, _ := strings.Cut(g.URL, "://")
	var c net.Conn
	var err error
	if g.CAFile == "" {
		c, err = net.Dial("tcp", address)
	} else {
		config := g.TLS()
		config.NextProtos = []string{"http/1.1"} // as browsers do for wss
		c, err = tls.Dial("tcp", address, config)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var head strings.Builder
	fmt.Fprintf(&head, "GET %s HTTP/1.1\r\nHost: a.example\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: %s\r\n"+
		"Connection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n", target, port)
	for i := 0; i+1 < len(more); i += 2 {
		head.WriteString(more[i] + ": " + more[i+1] + "\r\n")
	}
	if _, err := io.WriteString(c, head.String()+"\r\n"+early); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(4 * patience))
	s := &socketH1{Conn: c, br: bufio.NewReader(c)}
	if s.resp, err = http.ReadResponse(s.br, &http.Request{Method: "GET"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *socketH1) Read(p []byte) (int, error) {
	if s.resp.StatusCode != 101 {
		return s.resp.Body.Read(p)
	}
	return s.br.Read(p)
}
func (s *socketH1) header() http.Header { return s.resp.Header }
func (s *socketH1) status() int         { return s.resp.StatusCode }
func (s *socketH1) leave()              { s.Conn.Close() }
func (s *socketH1) end(t *testing.T) {
	t.Helper()
	if err := s.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}
func (s *socketH1) send(t *testing.T, b []byte) {
	t.Helper()
	if _, err := s.Conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

type socketH2 struct {
	t      *testing.T
	conn   *harness.H2
	stream uint32
	taken  int
}

func dialH2(t *testing.T, g *harness.Process, port, target, early string, more []string) socket {
	t.Helper()
	c := g.DialH2()
	fields := []string{
		":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "a.example", ":path", target,
		"e2b-sandbox-id", "a", "e2b-sandbox-port", port, "sec-websocket-version", "13",
	}
	for i := 0; i+1 < len(more); i += 2 {
		fields = append(fields, strings.ToLower(more[i]), more[i+1])
	}
	s := &socketH2{t: t, conn: c, stream: c.Open(fields...)}
	if early != "" {
		c.Send(s.stream, early, false)
	}
	c.Until("an answer", func() bool {
		st := c.Stream(s.stream)
		return st.Status != "" || st.Reset != nil || c.Closed() != nil
	})
	return s
}

func (s *socketH2) Read(p []byte) (int, error) {
	var st harness.H2Stream
	s.conn.Until("more on the stream", func() bool {
		st = s.conn.Stream(s.stream)
		return len(st.Body) > s.taken || st.Ended || st.Reset != nil || s.conn.Closed() != nil
	})
	if n := copy(p, st.Body[s.taken:]); n > 0 {
		s.taken += n
		return n, nil
	}
	switch {
	case st.Ended:
		return 0, io.EOF
	case st.Reset != nil:
		return 0, st.Reset
	default:
		return 0, s.conn.Closed()
	}
}

func (s *socketH2) header() http.Header { return s.conn.Stream(s.stream).Header }
func (s *socketH2) status() int {
	switch status := s.conn.Stream(s.stream).Status; status {
	case "200":
		return 101
	default:
		var n int
		fmt.Sscan(status, &n)
		return n
	}
}
func (s *socketH2) leave()           { s.conn.Reset(s.stream) }
func (s *socketH2) end(t *testing.T) { t.Helper(); s.conn.Send(s.stream, "", true) }
func (s *socketH2) send(t *testing.T, b []byte) {
	t.Helper()
	for len(b) > 0 {
		n := min(len(b), 16<<10)
		s.conn.Send(s.stream, string(b[:n]), false)
		b = b[n:]
	}
}

func read(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	b := make([]byte, n)
	if n, err := io.ReadFull(r, b); err != nil {
		t.Fatalf("%d bytes, %.200q, %v", n, b[:n], err)
	}
	return string(b)
}

// frame is a frame of a server; with a mask of a client, and then the payload is as it
// goes by and not what it means.
func frame(first byte, masked bool, payload string) []byte {
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if masked {
		b = append(b, 1, 2, 3, 4)
	}
	return append(b, payload...)
}

// goodbye is a close frame.
func goodbye(masked bool, code uint16, reason string) []byte {
	return frame(0x88, masked, string(binary.BigEndian.AppendUint16(nil, code))+reason)
}

// overBoth runs a test over HTTP/1.1, with and without TLS, and HTTP/2.
func overBoth(t *testing.T, test func(*testing.T, harness.Transport)) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) { test(t, transport) })
	}
}
