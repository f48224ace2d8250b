package portforward

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/caddy-e2b/gateway/handlers/websocket"
)

// MaxMessage is how much of a connection goes into one message, in bytes. The
// smallest limit of a rocklet is 1 MiB.
const MaxMessage = 64 << 10

// maxHead is the longest head of a frame that a client sends of MaxMessage.
const maxHead = 2 + 8 + 4

// FrameSize is the room that a frame with a whole message needs, in bytes.
const FrameSize = MaxMessage + maxHead

// AppendMessage appends the frame with a message of at most MaxMessage bytes.
func AppendMessage(dst, payload []byte) []byte {
	return appendFrame(dst, websocket.OpBinary, payload, rand.Uint32())
}

// AppendPong appends the answer to a ping.
func AppendPong(dst, payload []byte) []byte {
	return appendFrame(dst, websocket.OpPong, payload, rand.Uint32())
}

// AppendClose appends the frame that ends the connection well.
func AppendClose(dst []byte) []byte {
	return appendFrame(dst, websocket.OpClose, binary.BigEndian.AppendUint16(nil, closeNormal), rand.Uint32())
}

// appendFrame appends one whole frame. The key makes the bytes on the wire
// something that no client can choose (RFC 6455 section 10.3): the payload comes
// from one. math/rand's source is ChaCha8, which nobody outside can foresee.
func appendFrame(dst []byte, op byte, payload []byte, key uint32) []byte {
	dst = append(dst, 0x80|op)
	switch n := len(payload); {
	case n <= websocket.MaxControl:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	dst = binary.LittleEndian.AppendUint32(dst, key)
	begin := len(dst)
	dst = append(dst, payload...)
	mask(dst[begin:], key)
	return dst
}

// mask is the masking of RFC 6455 section 5.3, eight bytes at a time. The key's
// first byte is its lowest.
func mask(b []byte, key uint32) {
	wide := uint64(key)<<32 | uint64(key)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(wide >> (8 * i))
	}
}
