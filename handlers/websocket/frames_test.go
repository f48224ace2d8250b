package websocket

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// wsFrame makes a frame with the shortest head for its payload.
func wsFrame(first byte, masked bool, payload string) []byte {
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

func TestABoundaryIsKnownAfterEveryByte(t *testing.T) {
	var all []byte
	ends := map[int]bool{0: true}
	for _, f := range [][]byte{
		wsFrame(0x81, false, ""), wsFrame(0x82, false, "binary"), wsFrame(0x01, true, "a part"), wsFrame(0x89, false, "ping"),
		wsFrame(0x80, true, "the rest"), wsFrame(0xc1, false, strings.Repeat("x", 125)), wsFrame(0x82, false, strings.Repeat("x", 126)),
		wsFrame(0x82, true, strings.Repeat("x", 65535)), wsFrame(0x82, false, strings.Repeat("x", 65536)),
	} {
		all = append(all, f...)
		ends[len(all)] = true
	}
	var f Frames
	for i, b := range all {
		if f.AtBoundary() != ends[i] || f.Closed() {
			t.Fatalf("after %d bytes: boundary %v, closed %v", i, f.AtBoundary(), f.Closed())
		}
		f.Pass([]byte{b})
	}
	if !f.AtBoundary() {
		t.Error("not at the end of the last frame")
	}
}

func TestACloseFrameCountsWhenItIsWhole(t *testing.T) {
	b := CloseFrame(1000, "bye")
	var f Frames
	f.Pass(b[:len(b)-1])
	if f.Closed() || f.AtBoundary() {
		t.Error("half of a close frame counts")
	}
	f.Pass(b[len(b)-1:])
	if !f.Closed() || !f.AtBoundary() {
		t.Error("a whole close frame does not count")
	}
}

// RFC 6455 section 5.2: the most significant bit of a length must be 0.
func TestNothingIsABoundaryAfterALengthThatCannotBe(t *testing.T) {
	var f Frames
	f.Pass([]byte{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0})
	f.Pass(wsFrame(0x81, false, "x"))
	if f.AtBoundary() || f.LastBoundary([]byte("xyz")) != -1 {
		t.Error("a boundary was found")
	}
}

func TestAReasonIsCutBetweenCharacters(t *testing.T) {
	for reason, want := range map[string]int{
		"": 0, "bye": 3, strings.Repeat("x", 123): 123, strings.Repeat("x", 124): 123,
		strings.Repeat("ü", 62): 122, "x" + strings.Repeat("ü", 62): 123, strings.Repeat("x", 121) + "🙂": 121,
	} {
		b := CloseFrame(1011, reason)
		if b[0] != 0x88 || int(b[1]) != want+2 || len(b) != want+4 || binary.BigEndian.Uint16(b[2:]) != 1011 || !utf8.Valid(b[4:]) || !strings.HasPrefix(reason, string(b[4:])) {
			t.Errorf("%q became %q", reason, b)
		}
	}
}

// reference finds all boundaries of b at once, and where a close frame ends.
func reference(b []byte) (boundaries map[int]bool, closed int) {
	boundaries, closed = map[int]bool{0: true}, -1
	for pos := uint64(0); ; {
		rest := b[pos:]
		if len(rest) < 2 || len(rest) < HeadSize(rest[1]) {
			return boundaries, closed
		}
		n := uint64(rest[1] & 0x7f)
		switch n {
		case 126:
			n = uint64(rest[2])<<8 | uint64(rest[3])
		case 127:
			n = binary.BigEndian.Uint64(rest[2:])
		}
		size := uint64(HeadSize(rest[1]))
		if n>>63 != 0 || n > uint64(len(rest))-size {
			return boundaries, closed
		}
		if closed < 0 && rest[0]&0x0f == OpClose {
			closed = int(pos + size + n)
		}
		pos += size + n
		boundaries[int(pos)] = true
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x81\x05hello\x88\x02\x03\xe8"), uint64(1))
	f.Add(wsFrame(0x82, true, strings.Repeat("x", 300)), uint64(2))
	f.Add([]byte{0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0, 1}, uint64(3))
	f.Add(bytes.Repeat([]byte{0x89, 0}, 40), uint64(4))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		boundaries, closed := reference(b)
		split := rand.New(rand.NewPCG(seed, 0))
		var frames Frames
		for pos := 0; pos < len(b); {
			n := 1 + split.IntN(len(b)-pos)
			last := -1
			for i := pos; i <= pos+n; i++ {
				if boundaries[i] {
					last = i - pos
				}
			}
			if got := frames.LastBoundary(b[pos : pos+n]); got != last {
				t.Fatalf("the last boundary of bytes %d to %d is %d, not %d", pos, pos+n, last, got)
			}
			frames.Pass(b[pos : pos+n])
			pos += n
			if frames.AtBoundary() != boundaries[pos] {
				t.Fatalf("after %d bytes: %v", pos, frames.AtBoundary())
			}
			if frames.Closed() != (closed >= 0 && pos >= closed) {
				t.Fatalf("after %d bytes: closed %v", pos, frames.Closed())
			}
		}
	})
}
