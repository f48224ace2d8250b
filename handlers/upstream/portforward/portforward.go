// Package portforward is the client's side of the door that ROCK's agent in a
// sandbox, the rocklet, has to the ports inside: a WebSocket (RFC 6455) whose
// binary messages are the bytes of one TCP connection to 127.0.0.1:port.
//
//	GET /portforward?port=8000 HTTP/1.1        the rocklet switches protocols first
//	Upgrade: websocket                         and looks at the port afterwards
//
//	message, message, …                        both ways: where one ends means nothing
//	close 1008 or 1011 "Failed to connect …"   the port was not reached
//	close 1000                                 the TCP connection has ended, or was reset
//
// There is no way to end one direction: a close frame ends both.
//
// It knows bytes. Connections, their pools and their deadlines are upstream's.
package portforward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-e2b/gateway/handlers/websocket"
)

// Status codes of close frames (RFC 6455 section 7.4.1).
const (
	closeNormal   = 1000
	closeNoStatus = 1005 // stands for a close frame without a code
	closePolicy   = 1008
	closeInternal = 1011
)

// Closed is the rocklet's close frame.
type Closed struct {
	Code   uint16
	Reason string // at most 123 bytes, of any content
}

// Error is a text for logs.
func (c *Closed) Error() string {
	return fmt.Sprintf("the rocklet has closed the port-forward with %d %q", c.Code, c.Reason)
}

// Well reports the end of the TCP connection in the sandbox. The rocklet tells a
// polite end and a reset of it apart no more than a port and the program behind
// it do.
func (c *Closed) Well() bool { return c.Code == closeNormal }

// refusals are how the rocklet's reasons begin when it has not reached a port
// (rock/rocklet/local_api.py, portforward). Its web server uses code 1011 too, for
// a connection that had been in use: "keepalive ping timeout".
var refusals = []string{"Failed to connect", "Connection to port", "Unexpected error"}

// Refused reports that the port was not reached: nothing that was sent has got
// any further than to the rocklet.
func (c *Closed) Refused() bool {
	if c.Code != closeInternal {
		return c.Code == closePolicy
	}
	for _, r := range refusals {
		if strings.HasPrefix(c.Reason, r) {
			return true
		}
	}
	return false
}

// ErrFrame is what no server may send (RFC 6455 section 5).
var ErrFrame = errors.New("the rocklet has sent a frame that is none")

// Reader takes the frames of one connection apart. The zero value is at the
// first byte after the handshake. It holds no payload: a message may be of any
// length, in any number of pieces.
type Reader struct {
	head    [10]byte
	have    uint8  // bytes of the head that were seen
	left    uint64 // bytes of the payload that are still to come
	control []byte // the payload of the control frame that is under way
	inside  bool   // of a message whose last frame is to come

	// Carried is set once a byte of the connection in the sandbox has come.
	Carried bool
	// Ping is the payload of the last ping if that was not taken yet, else nil.
	Ping []byte
	// Closed is the close frame, once it has come. Nothing follows it.
	Closed *Closed
}

// Unwrap moves the payload in b to its front and returns how much that is. b are
// the next bytes of the connection, cut anywhere. The error is [ErrFrame].
func (r *Reader) Unwrap(b []byte) (n int, err error) {
	for in := b; len(in) > 0 && r.Closed == nil; {
		if !r.headSeen() {
			r.head[r.have] = in[0]
			r.have++
			in = in[1:]
			if r.headSeen() {
				if err := r.begin(); err != nil {
					return n, err
				}
			}
			continue
		}
		piece := in[:min(r.left, uint64(len(in)))]
		in = in[len(piece):]
		r.left -= uint64(len(piece))
		if r.head[0]&0x0f >= websocket.OpClose {
			r.control = append(r.control, piece...)
		} else {
			n += copy(b[n:], piece)
			r.Carried = true
		}
		r.ended()
	}
	return n, nil
}

func (r *Reader) headSeen() bool {
	return r.have >= 2 && int(r.have) == websocket.HeadSize(r.head[1]&0x7f)
}

// begin reads a whole head.
func (r *Reader) begin() error {
	first, op := r.head[0], r.head[0]&0x0f
	final := first&0x80 != 0
	r.left = websocket.PayloadSize(r.head[1:r.have])
	switch {
	case first&0x70 != 0, r.head[1]&0x80 != 0, r.left>>63 != 0:
		return ErrFrame // an extension that nobody has asked for, a mask, a length that is none
	case op == websocket.OpClose, op == websocket.OpPing, op == websocket.OpPong:
		if !final || r.left > websocket.MaxControl || op == websocket.OpClose && r.left == 1 {
			return ErrFrame
		}
	case op == websocket.OpBinary && !r.inside, op == websocket.OpContinuation && r.inside:
		r.inside = !final
	default:
		return ErrFrame
	}
	r.ended()
	return nil
}

// ended notes the end of a frame, if this is one.
func (r *Reader) ended() {
	if r.left > 0 {
		return
	}
	r.have = 0
	switch r.head[0] & 0x0f {
	case websocket.OpPing:
		r.Ping = append(make([]byte, 0, len(r.control)), r.control...)
	case websocket.OpClose:
		r.Closed = &Closed{Code: closeNoStatus}
		if len(r.control) >= 2 {
			r.Closed.Code, r.Closed.Reason = binary.BigEndian.Uint16(r.control), string(r.control[2:])
		}
	}
	r.control = nil
}
