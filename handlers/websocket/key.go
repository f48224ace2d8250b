package websocket

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
)

// NewKey makes the Sec-WebSocket-Key of a client (RFC 6455 section 4.1).
func NewKey() string {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	return base64.StdEncoding.EncodeToString(nonce)
}

// AcceptOf is the Sec-WebSocket-Accept of a server that has understood the
// handshake with this key (RFC 6455 section 4.2.2).
func AcceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
