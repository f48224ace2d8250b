package rock

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// webSocket is the server's end of a WebSocket (RFC 6455), as the rocklet's web server has it.
type webSocket struct {
	conn *net.TCPConn
	r    *bufio.Reader

	mu     sync.Mutex // guards writing
	closed bool       // our close frame is out

	pongs chan string // payloads of answers to pings
}

const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa

	closeNormal   = 1000
	closeProtocol = 1002
	closePolicy   = 1008
	closeTooBig   = 1009
	closeInternal = 1011

	// maxForward is the smaller one of the limits that rocklets have.
	maxForward = 1 << 20
)

// acceptOf is Sec-WebSocket-Accept for a key.
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var errWebSocket = errors.New("rock: the WebSocket was broken by its client")

// read is the next message. io.EOF after a close frame, which it has answered.
func (ws *webSocket) read() ([]byte, error) {
	var message []byte
	for begun := false; ; {
		first, payload, err := ws.frame(maxForward - len(message))
		if err != nil {
			return nil, err
		}
		switch op := first & 0x0f; op {
		case opPing:
			_ = ws.write(opPong, payload)
		case opPong:
			select {
			case ws.pongs <- string(payload):
			default:
			}
		case opClose:
			code := closeNormal
			if len(payload) >= 2 {
				code = int(binary.BigEndian.Uint16(payload))
			}
			ws.goodbye(code, "", true)
			return nil, io.EOF
		case opBinary, opText, opContinuation:
			if begun != (op == opContinuation) {
				ws.goodbye(closeProtocol, "", false)
				return nil, errWebSocket
			}
			if !begun {
				message = payload
			} else {
				message = append(message, payload...)
			}
			if begun = true; first&0x80 != 0 {
				return message, nil
			}
		default:
			ws.goodbye(closeProtocol, "", false)
			return nil, errWebSocket
		}
	}
}

// frame reads one frame, which a client has to mask.
func (ws *webSocket) frame(most int) (first byte, payload []byte, err error) {
	var head [8]byte
	if _, err = io.ReadFull(ws.r, head[:2]); err != nil {
		return 0, nil, err
	}
	first = head[0]
	masked, n := head[1]&0x80 != 0, uint64(head[1]&0x7f)
	switch n {
	case 126:
		if _, err = io.ReadFull(ws.r, head[:2]); err != nil {
			return 0, nil, err
		}
		n = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		if _, err = io.ReadFull(ws.r, head[:8]); err != nil {
			return 0, nil, err
		}
		n = binary.BigEndian.Uint64(head[:])
	}
	switch {
	case !masked || first&0x70 != 0:
		ws.goodbye(closeProtocol, "", false)
		return 0, nil, errWebSocket
	case n > uint64(most):
		ws.goodbye(closeTooBig, "", false)
		return 0, nil, errWebSocket
	}
	var mask [4]byte
	if _, err = io.ReadFull(ws.r, mask[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, n)
	if _, err = io.ReadFull(ws.r, payload); err != nil {
		return 0, nil, err
	}
	unmask(payload, mask)
	return first, payload, nil
}

// unmask goes by eight bytes at a time, so that what a benchmark measures is the gateway.
func unmask(b []byte, mask [4]byte) {
	key := binary.LittleEndian.Uint32(mask[:])
	for wide := uint64(key)<<32 | uint64(key); len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
	}
	for i := range b {
		b[i] ^= mask[i%4]
	}
}

// write sends one whole message or control frame.
func (ws *webSocket) write(op byte, payload []byte) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return net.ErrClosed
	}
	frame := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(n))
	}
	_, err := ws.conn.Write(append(frame, payload...))
	ws.closed = op == opClose
	return err
}

// keepAlive pings the client and gives it up when it does not answer. A ping that cannot be sent, because the client does not read, waits.
func (ws *webSocket) keepAlive(over <-chan struct{}, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		payload := strconv.Itoa(n)
		if ws.write(opPing, []byte(payload)) != nil {
			return
		}
		late := time.NewTimer(every)
		for answered := false; !answered; {
			select {
			case <-over:
				late.Stop()
				return
			case pong := <-ws.pongs:
				answered = pong == payload
			case <-late.C:
				ws.goodbye(closeInternal, "keepalive ping timeout", true)
				_ = ws.conn.Close()
				return
			}
		}
		late.Stop()
	}
}

// goodbye sends the close frame, once. Unless the reader goes on, it waits for the client's.
func (ws *webSocket) goodbye(code int, reason string, readerGoesOn bool) {
	err := ws.write(opClose, append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...))
	if err != nil || readerGoesOn {
		return
	}
	_ = ws.conn.SetReadDeadline(time.Now().Add(goodbyeWait))
	for {
		if first, _, err := ws.frame(maxForward); err != nil || first&0x0f == opClose {
			return
		}
	}
}
