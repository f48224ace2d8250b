package websocket

import (
	"encoding/binary"
	"unicode/utf8"
)

// Frames follows the frames of one direction of a connection. It looks at
// their heads only:
//
//	0       1            2                     2+extended     +4 if masked
//	+-------+------------+---------------------+--------------+---------+
//	| FIN   | MASK       | length in 0, 2 or 8 | masking key  | payload |
//	| opcode| length     | bytes, big-endian   | if MASK      |         |
//	+-------+------------+---------------------+--------------+---------+
//
// (RFC 6455 section 5.2). The zero value is at the first byte after the
// handshake.
type Frames struct {
	head   [14]byte
	have   int    // bytes of the head that were seen
	left   uint64 // bytes of the payload that are still to come
	closed bool
	broken bool
}

// Opcodes (RFC 6455 section 5.2). From OpClose on they are those of control frames, which
// may come between the frames of a message.
const (
	OpContinuation = 0x0
	OpBinary       = 0x2
	OpClose        = 0x8
	OpPing         = 0x9
	OpPong         = 0xa
)

// MaxControl is the longest payload of a control frame, in bytes.
const MaxControl = 125

// Pass follows bytes that have gone by.
func (f *Frames) Pass(b []byte) {
	for len(b) > 0 && !f.broken {
		if f.left > 0 {
			n := min(f.left, uint64(len(b)))
			f.left -= n
			b = b[n:]
			f.ended()
			continue
		}
		f.head[f.have] = b[0]
		f.have++
		b = b[1:]
		if f.have < 2 || f.have < HeadSize(f.head[1]) {
			continue
		}
		if f.left = PayloadSize(f.head[1:f.have]); f.left>>63 != 0 {
			// No such frame: nobody knows where the next one begins.
			f.broken = true
		}
		f.ended()
	}
}

// ended notes the end of a frame, if this is one.
func (f *Frames) ended() {
	if f.left > 0 || f.broken {
		return
	}
	f.closed = f.closed || f.head[0]&0x0f == OpClose
	f.have = 0
}

// AtBoundary reports that the next byte begins a frame.
func (f *Frames) AtBoundary() bool { return f.have == 0 && !f.broken }

// Closed reports that a close frame has gone by. Nothing may follow it.
func (f *Frames) Closed() bool { return f.closed }

// LastBoundary is the largest n for which the frames are at a boundary once the
// first n bytes of b have gone by, and -1 if there is none.
func (f *Frames) LastBoundary(b []byte) int {
	ahead, last := *f, -1
	for i := 0; ; {
		if ahead.AtBoundary() {
			last = i
		}
		if i == len(b) || ahead.broken {
			return last
		}
		step := 1
		if ahead.left > 0 {
			step = int(min(ahead.left, uint64(len(b)-i)))
		}
		ahead.Pass(b[i : i+step])
		i += step
	}
}

// HeadSize is the size of a head by its second byte.
func HeadSize(second byte) int {
	n := 2
	switch second & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if second&0x80 != 0 {
		n += 4
	}
	return n
}

// PayloadSize is the length in a whole head, without its first byte.
func PayloadSize(head []byte) uint64 {
	switch n := head[0] & 0x7f; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(head[1:]))
	case 127:
		return binary.BigEndian.Uint64(head[1:])
	default:
		return uint64(n)
	}
}

// maxReason is the longest reason of a close frame, in bytes: a control frame
// has at most 125, and the code takes two.
const maxReason = 123

// CloseFrame is the frame with which a server closes a connection. A reason
// that is too long is cut, but never inside a character.
func CloseFrame(code uint16, reason string) []byte {
	if len(reason) > maxReason {
		n := maxReason
		for n > 0 && !utf8.RuneStart(reason[n]) {
			n--
		}
		reason = reason[:n]
	}
	frame := []byte{0x80 | OpClose, byte(2 + len(reason))}
	frame = binary.BigEndian.AppendUint16(frame, code)
	return append(frame, reason...)
}
