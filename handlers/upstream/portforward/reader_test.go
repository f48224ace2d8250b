package portforward

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/websocket"
)

// frame is a frame as a server sends it.
func frame(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return string(b) + payload
}

const (
	binaryFrame = 0x80 | websocket.OpBinary
	pingFrame   = 0x80 | websocket.OpPing
	pongFrame   = 0x80 | websocket.OpPong
	closeFrame  = 0x80 | websocket.OpClose
)

// unwrap feeds a reader in pieces of the given size.
func unwrap(r *Reader, wire string, size int) (string, error) {
	var got []byte
	for len(wire) > 0 {
		b := []byte(wire[:min(size, len(wire))])
		wire = wire[len(b):]
		n, err := r.Unwrap(b)
		got = append(got, b[:n]...)
		if err != nil {
			return string(got), err
		}
	}
	return string(got), nil
}

func TestPayloadIsReadWhereverItIsCut(t *testing.T) {
	long := strings.Repeat("0123456789", 7000)
	wire := frame(binaryFrame, "one") + frame(pongFrame, "unasked") + frame(binaryFrame, "") + frame(binaryFrame, strings.Repeat("x", 300)) +
		frame(websocket.OpBinary, "in ") + frame(pingFrame, "p") + frame(websocket.OpContinuation, "three ") + frame(0x80, "pieces") +
		frame(binaryFrame, long) + frame(closeFrame, "\x03\xe8bye") + "nothing follows"
	want := "one" + strings.Repeat("x", 300) + "in three pieces" + long
	for _, size := range []int{1, 2, 3, 7, 4096, len(wire)} {
		var r Reader
		got, err := unwrap(&r, wire, size)
		if err != nil || got != want {
			t.Fatalf("in pieces of %d: %d bytes of %d, %v", size, len(got), len(want), err)
		}
		if string(r.Ping) != "p" || r.Closed == nil || r.Closed.Code != 1000 || r.Closed.Reason != "bye" || !r.Closed.Well() || !r.Carried {
			t.Errorf("ping %q, %v, carried %v", r.Ping, r.Closed, r.Carried)
		}
	}
}

func TestWhatNoServerMaySendIsAnError(t *testing.T) {
	for name, wire := range map[string]string{
		"a mask":                          "\x82\x81abcdx",
		"an extension's bit":              frame(0xc2, "x"),
		"text":                            frame(0x81, "x"),
		"an unknown opcode":               frame(0x83, "x"),
		"a continuation of nothing":       frame(0x80, "x"),
		"a message inside of one":         frame(websocket.OpBinary, "x") + frame(binaryFrame, "y"),
		"a ping in pieces":                frame(websocket.OpPing, "x"),
		"a ping that is too long":         frame(pingFrame, strings.Repeat("x", 126)),
		"half a status code":              frame(closeFrame, "x"),
		"a length of more than 63 bits":   "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00",
		"a length that masks and unmasks": "\x82\xfe\x00\x7eabcd",
	} {
		for _, size := range []int{1, 100} {
			var r Reader
			if _, err := unwrap(&r, wire, size); !errors.Is(err, ErrFrame) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// rock/rocklet/local_api.py, portforward, and what its web server says by itself.
func TestOnlyTheRockletsOwnWordsSayThatAPortWasNotReached(t *testing.T) {
	for _, tc := range []struct {
		payload       string
		refused, well bool
	}{
		{"\x03\xf0Port 22 is not allowed", true, false},
		{"\x03\xf3Failed to connect to port 8000: [Errno 111] Connect call failed ('127.0.0.1', 8000)", true, false},
		{"\x03\xf3Connection to port 8000 timed out", true, false},
		{"\x03\xf3Unexpected error: x", true, false},
		{"\x03\xf3keepalive ping timeout", false, false},
		{"\x03\xf3", false, false},
		{"\x03\xe9", false, false}, // 1001
		{"", false, false},
		{"\x03\xe8", false, true},
		{"\x03\xe8Failed to connect", false, true},
	} {
		var r Reader
		if _, err := unwrap(&r, frame(closeFrame, tc.payload), 1); err != nil || r.Closed == nil {
			t.Fatal(r.Closed, err)
		}
		if r.Closed.Refused() != tc.refused || r.Closed.Well() != tc.well {
			t.Errorf("%v: refused %v, well %v", r.Closed, r.Closed.Refused(), r.Closed.Well())
		}
	}
}

// FuzzReader holds the reader to itself: how the bytes are cut changes nothing,
// and it never makes payload of more than there is.
func FuzzReader(f *testing.F) {
	f.Add([]byte(frame(binaryFrame, "hello")+frame(pingFrame, "")+frame(closeFrame, "\x03\xe8")), uint8(1))
	f.Add([]byte(frame(websocket.OpBinary, "a")+frame(0x80, strings.Repeat("b", 200))), uint8(3))
	f.Add([]byte("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"), uint8(2))
	f.Fuzz(func(t *testing.T, wire []byte, size uint8) {
		var whole, pieces Reader
		a, errA := unwrap(&whole, string(wire), len(wire)+1)
		b, errB := unwrap(&pieces, string(wire), int(size)+1)
		if a != b || (errA == nil) != (errB == nil) || len(a) > len(wire) {
			t.Fatalf("%q, %v and %q, %v", a, errA, b, errB)
		}
		if (whole.Closed == nil) != (pieces.Closed == nil) || whole.Closed != nil && *whole.Closed != *pieces.Closed || !bytes.Equal(whole.Ping, pieces.Ping) {
			t.Fatalf("%v %q and %v %q", whole.Closed, whole.Ping, pieces.Closed, pieces.Ping)
		}
		if len(whole.control) > websocket.MaxControl || whole.Closed != nil && len(whole.Closed.Reason) > websocket.MaxControl {
			t.Fatal("a control frame has no bound")
		}
	})
}
