package upstream

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/upstream/portforward"
)

// rocklet is the agent of one sandbox, whose port-forwards a test scripts.
type rocklet struct {
	net.Listener
	asked chan string // the target of each handshake
}

func newRocklet(t *testing.T, forward func(c net.Conn, r *bufio.Reader)) *rocklet {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &rocklet{l, make(chan string, 100)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				handshake, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				k.asked <- handshake.RequestURI
				sum := sha1.Sum([]byte(handshake.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
				fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
					base64.StdEncoding.EncodeToString(sum[:]))
				forward(c, r)
			}()
		}
	}()
	return k
}

func (k *rocklet) address() string { return k.Addr().String() }

// tell sends one frame.
func tell(c net.Conn, first byte, payload string) {
	frame := binary.BigEndian.AppendUint16([]byte{first, 126}, uint16(len(payload)))
	c.Write(append(frame, payload...))
}

// hear is the next frame of the gateway: its first byte and its payload.
func hear(r *bufio.Reader) (first byte, payload string, err error) {
	var head [8]byte
	if _, err = io.ReadFull(r, head[:2]); err != nil {
		return 0, "", err
	}
	first = head[0]
	n := uint64(head[1] & 0x7f)
	switch n {
	case 126:
		_, err = io.ReadFull(r, head[:2])
		n = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		_, err = io.ReadFull(r, head[:8])
		n = binary.BigEndian.Uint64(head[:])
	}
	b := make([]byte, 4+n)
	if err == nil {
		_, err = io.ReadFull(r, b)
	}
	for i := range n {
		b[4+i] ^= b[i%4]
	}
	return first, string(b[4:]), err
}

const (
	sentMessage = 0x82
	sentClose   = 0x88
	sentPing    = 0x89
	sentPong    = 0x8a
)

// through sends a request through a rocklet.
func (k *rocklet) through(t *testing.T, tr *Transport, method string, body io.Reader) (*http.Response, error) {
	t.Helper()
	r := request(t, method, "l", k.address(), body)
	r.URL.Host = TunnelHost("l", k.address(), 8000)
	return tr.RoundTrip(r)
}

// serveHTTP answers each request on a port-forward, until the gateway leaves.
func serveHTTP(c net.Conn, r *bufio.Reader) {
	for {
		op, payload, err := hear(r)
		if err != nil || op != sentMessage {
			return
		}
		tell(c, sentMessage, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(payload), payload))
	}
}

func TestARequestGoesThroughTheRockletAndTheConnectionIsUsedAgain(t *testing.T) {
	k := newRocklet(t, serveHTTP)
	tr := New(Config{})
	defer tr.CloseIdle()
	for range 3 {
		resp, err := k.through(t, tr, http.MethodGet, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.HasPrefix(string(b), "GET /x HTTP/1.1\r\n") {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if asked := <-k.asked; asked != "/portforward?port=8000" || len(k.asked) != 0 {
		t.Errorf("asked for %s and %d more", asked, len(k.asked))
	}
}

// inside is a port-forward that a test uses as a net.Conn.
func inside(t *testing.T, k *rocklet) (*tunnelled, error) {
	t.Helper()
	tr := New(Config{})
	c, err := tr.dial(t.Context(), "tcp", TunnelHost("l", k.address(), 8000))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c.(*tunnelled), nil
}

func mustInside(t *testing.T, k *rocklet) *tunnelled {
	t.Helper()
	c, err := inside(t, k)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAPortForwardCarriesBytesOfAnyNumber(t *testing.T) {
	k := newRocklet(t, func(c net.Conn, r *bufio.Reader) {
		for {
			op, payload, err := hear(r)
			if err != nil || op != sentMessage || len(payload) > portforward.MaxMessage {
				return
			}
			for len(payload) > 0 {
				n := min(len(payload), 4096)
				tell(c, sentMessage, payload[:n])
				payload = payload[n:]
			}
		}
	})
	c := mustInside(t, k)
	sent := bytes.Repeat([]byte("0123456789abcdef_"), 70_000)
	go c.Write(sent)
	got := make([]byte, len(sent))
	for have := 0; have < len(got); {
		before := c.Buffered()
		n, err := c.Read(got[have:min(have+5000, len(got))])
		if err != nil || before > 0 && n != min(before, 5000, len(got)-have) {
			t.Fatalf("read %d with %d ahead, %v", n, before, err)
		}
		have += n
	}
	if !bytes.Equal(got, sent) {
		t.Fatal("other bytes")
	}
	if c.chunk != nil {
		t.Error("the chunk was not given back")
	}
}

// The rocklet says 1000 whatever has become of the connection in the sandbox.
func TestTheEndOfAPortForwardIsTheEndOfTheConnectionOnlyWhenTheRockletSaysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(net.Conn)
		want error
	}{
		"1000":             {func(c net.Conn) { tell(c, sentClose, "\x03\xe8") }, io.EOF},
		"1001":             {func(c net.Conn) { tell(c, sentClose, "\x03\xe9") }, syscall.ECONNRESET},
		"1011 in its life": {func(c net.Conn) { tell(c, sentClose, "\x03\xf3Failed to connect") }, syscall.ECONNRESET},
		"no close frame":   {func(c net.Conn) { c.Close() }, syscall.ECONNRESET},
		"no frame":         {func(c net.Conn) { tell(c, 0xff, "x") }, syscall.ECONNRESET},
		"a reset":          {func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			k := newRocklet(t, func(c net.Conn, r *bufio.Reader) {
				tell(c, sentMessage, "last")
				<-read
				tc.end(c)
				io.Copy(io.Discard, r)
			})
			c := mustInside(t, k)
			b := make([]byte, 4)
			if _, err := io.ReadFull(c, b); err != nil || string(b) != "last" {
				t.Fatalf("%q, %v", b, err)
			}
			close(read)
			for range 2 {
				if n, err := c.Read(b); n != 0 || !errors.Is(err, tc.want) || errors.Is(err, io.EOF) != (tc.want == io.EOF) {
					t.Errorf("%d, %v", n, err)
				}
			}
		})
	}
}

func TestAPortThatIsRefusedAtOnceIsAFailedDial(t *testing.T) {
	for name, tc := range map[string]struct {
		end     func(net.Conn)
		refused bool
		nobody  bool
	}{
		"1008":                  {func(c net.Conn) { tell(c, sentClose, "\x03\xf0Port 1 is not allowed") }, true, true},
		"1011":                  {func(c net.Conn) { tell(c, sentClose, "\x03\xf3Failed to connect to port 8000: x") }, true, true},
		"closed by the program": {func(c net.Conn) { tell(c, sentClose, "\x03\xe8") }, false, true},
		"lost":                  {func(c net.Conn) { c.Close() }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRocklet(t, func(c net.Conn, r *bufio.Reader) { tc.end(c); io.Copy(io.Discard, r) })
			tr := New(Config{})
			tr.refusalWait = 2 * time.Second // a slow machine takes its time
			body := &countingBody{Reader: strings.NewReader("body")}
			_, err := k.through(t, tr, http.MethodPost, body)
			var dial *DialError
			if !errors.As(err, &dial) || Refused(err) != tc.refused || NobodyThere(err) != tc.nobody || body.reads > 0 {
				t.Errorf("%v: refused %v, nobody there %v, %d reads of the body", err, Refused(err), NobodyThere(err), body.reads)
			}
		})
	}
}

// What is at the rocklet's address has not said that nobody is in the sandbox.
func TestAnAddressWithoutPortForwardIsAFailedDialOfUnknownMeaning(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if i == 0 { // later ones meet silence
				io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			}
		}
	}()
	k := &rocklet{Listener: l}
	for _, why := range []string{"404", "takes too long"} {
		_, err := k.through(t, New(Config{DialTimeout: 200 * time.Millisecond}), http.MethodGet, nil)
		var dial *DialError
		if !errors.As(err, &dial) || NobodyThere(err) || !errors.Is(err, portforward.ErrHandshake) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// The rocklet takes up to ten seconds to give up a connection.
func TestAPortThatIsRefusedLateEndsTheRequestAndIsNotAskedAgain(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		k := newRocklet(t, func(c net.Conn, r *bufio.Reader) {
			if op, _, err := hear(r); err != nil || op != sentMessage {
				return
			}
			tell(c, sentClose, "\x03\xf3Connection to port 8000 timed out")
			io.Copy(io.Discard, r)
		})
		tr := New(Config{})
		r := request(t, method, "l", k.address(), nil)
		if method == http.MethodPost {
			r = request(t, method, "l", k.address(), strings.NewReader("body"))
		}
		r.URL.Host = TunnelHost("l", k.address(), 8000)
		_, err := tr.RoundTrip(r)
		var dial *DialError
		if !errors.Is(err, ErrPortRefused) || errors.As(err, &dial) {
			t.Errorf("%s: %v", method, err)
		}
		if <-k.asked; len(k.asked) != 0 {
			t.Errorf("%s: asked %d times more", method, len(k.asked))
		}
		tr.CloseIdle()
	}
}

func TestAPingIsAnsweredWhileTheRockletTakesNothing(t *testing.T) {
	answered := make(chan string, 1)
	k := newRocklet(t, func(c net.Conn, r *bufio.Reader) {
		for i := range 3 {
			tell(c, sentPing, fmt.Sprint("ping ", i))
		}
		tell(c, sentMessage, "read")
		for {
			op, payload, err := hear(r)
			if err != nil {
				return
			}
			if op == sentPong && payload == "ping 2" {
				answered <- payload
				return
			}
		}
	})
	c := mustInside(t, k)
	// A write that waits holds up the pong, and must not hold up reading.
	c.writing.Lock()
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "read" {
		t.Fatalf("%q, %v", b, err)
	}
	c.writing.Unlock()
	<-answered
}

func TestAPortForwardSaysGoodbyeAndCannotEndOneDirection(t *testing.T) {
	heard := make(chan string, 1)
	k := newRocklet(t, func(_ net.Conn, r *bufio.Reader) {
		op, payload, err := hear(r)
		heard <- fmt.Sprintf("%x %x %v", op, payload, err)
	})
	c := mustInside(t, k)
	if c.CloseWrite() == nil {
		t.Error("it can")
	}
	c.Close()
	if got := <-heard; got != "88 03e8 <nil>" {
		t.Errorf("it says %s", got)
	}
}

func TestAWriteThatFailsInAFrameIsTheLast(t *testing.T) {
	hold := make(chan struct{})
	k := newRocklet(t, func(net.Conn, *bufio.Reader) { <-hold })
	defer close(hold)
	c := mustInside(t, k)
	more := make([]byte, 64<<20) // than any socket takes
	c.SetWriteDeadline(time.Now().Add(time.Second))
	n, err := c.Write(more)
	if err == nil || n == 0 {
		t.Fatalf("%d, %v", n, err)
	}
	c.SetWriteDeadline(time.Time{})
	if n, err := c.Write([]byte("x")); n != 0 || !errors.Is(err, errLost) {
		t.Errorf("after half a frame: %d, %v", n, err)
	}
}

func TestConnectionsToOnePortAreNoOtherPorts(t *testing.T) {
	k := newRocklet(t, serveHTTP)
	tr := New(Config{})
	defer tr.CloseIdle()
	for _, key := range []string{TunnelHost("l", k.address(), 8000), TunnelHost("l", k.address(), 8001), TunnelHost("m", k.address(), 8000)} {
		r := request(t, http.MethodGet, "l", k.address(), nil)
		r.URL.Host = key
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if n := len(k.asked); n != 1 {
			t.Errorf("%s: %d handshakes", key, n)
		}
		<-k.asked
	}
}
