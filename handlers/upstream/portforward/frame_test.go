package portforward

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-e2b/gateway/handlers/websocket"
)

// RFC 6455 section 5.3, byte by byte.
func TestMasksAreThoseOfTheRFC(t *testing.T) {
	for n := range 40 {
		b := bytes.Repeat([]byte{0xa5}, n)
		mask(b, 0x04030201)
		for i := range b {
			if b[i] != 0xa5^byte(1+i%4) {
				t.Fatalf("byte %d of %d is %x", i, n, b[i])
			}
		}
	}
}

func TestAMessageIsOneMaskedFrame(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65535, MaxMessage} {
		payload := bytes.Repeat([]byte{'x'}, n)
		wire := AppendMessage(nil, payload)
		if len(wire) > FrameSize {
			t.Errorf("%d bytes take %d, more than FrameSize", n, len(wire))
		}
		head := []byte{0x82, 0x80 | byte(n)}
		switch {
		case n == MaxMessage:
			head = binary.BigEndian.AppendUint64([]byte{0x82, 0xff}, uint64(n))
		case n > 125:
			head = binary.BigEndian.AppendUint16([]byte{0x82, 0xfe}, uint16(n))
		}
		if !bytes.HasPrefix(wire, head) {
			t.Fatalf("%d bytes begin with %x", n, wire[:min(14, len(wire))])
		}
		key, got := wire[len(head):len(head)+4], wire[len(head)+4:]
		for i := range got {
			got[i] ^= key[i%4]
		}
		if !bytes.Equal(got, payload) {
			t.Errorf("%d bytes have become others", n)
		}
	}
}

func TestEveryFrameHasAKeyOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		seen[string(AppendMessage(nil, nil)[2:6])] = true
	}
	if len(seen) < 99 {
		t.Errorf("%d keys for 100 frames", len(seen))
	}
}

// server answers a handshake, once.
type server struct {
	io.Reader
	asked  strings.Builder
	answer func(key string) string
}

func (s *server) Write(p []byte) (int, error) {
	s.asked.Write(p)
	_, key, _ := strings.Cut(s.asked.String(), "Sec-WebSocket-Key: ")
	s.Reader = iotest.OneByteReader(strings.NewReader(s.answer(strings.TrimSpace(key))))
	return len(p), nil
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"

func TestTheHandshakeNamesThePortAndReadsNothingBehindIt(t *testing.T) {
	s := &server{answer: func(key string) string { return fmt.Sprintf(switching, websocket.AcceptOf(key)) + "\r\n\x82\x01x" }}
	if err := Open(s, "10.0.0.5:31001", 8000); err != nil {
		t.Fatal(err)
	}
	if asked := s.asked.String(); !strings.HasPrefix(asked, "GET /portforward?port=8000 HTTP/1.1\r\nHost: 10.0.0.5:31001\r\n") {
		t.Errorf("asked %q", asked)
	}
	if rest, _ := io.ReadAll(s); string(rest) != "\x82\x01x" {
		t.Errorf("left %q", rest)
	}
}

func TestAnAnswerThatOpensNoWebSocketIsAnError(t *testing.T) {
	for name, answer := range map[string]string{
		"not found":            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":              "SSH-2.0-x\r\n\r\n",
		"another handshake":    fmt.Sprintf(switching, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") + "\r\n",
		"no word of it":        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
		"a head without end":   strings.Repeat("x", maxAnswer+1),
		"what was not offered": "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
	} {
		s := &server{answer: func(key string) string { return strings.Replace(answer, "KEY", websocket.AcceptOf(key), 1) }}
		if err := Open(s, "a:1", 8000); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := &server{answer: func(string) string { return "HTTP/1.1 101 Swi" }}
	if err := Open(s, "a:1", 8000); err == nil || errors.Is(err, ErrHandshake) {
		t.Errorf("cut: %v", err)
	}
}

// FuzzOpen reads answers of anybody.
func FuzzOpen(f *testing.F) {
	f.Add("HTTP/1.1 404 Not Found\r\n\r\n")
	f.Add(fmt.Sprintf(switching, "KEY") + "\r\n")
	f.Fuzz(func(t *testing.T, answer string) {
		s := &server{answer: func(key string) string { return strings.Replace(answer, "KEY", websocket.AcceptOf(key), 1) }}
		if err := Open(s, "a:1", 8000); err == nil && !strings.Contains(answer, "KEY") {
			t.Fatalf("%q opens a WebSocket", answer)
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	wire, payload := make([]byte, 0, FrameSize), make([]byte, MaxMessage)
	b.SetBytes(MaxMessage)
	for b.Loop() {
		AppendMessage(wire, payload)
	}
}
