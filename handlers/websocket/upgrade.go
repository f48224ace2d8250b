// Package websocket carries WebSocket connections (RFC 6455) through the
// gateway: it recognises the handshake, copies both directions to the byte, and
// closes the client's side in the protocol when the other side cannot.
//
// It knows frames and connections. It knows no sandbox: why a connection ends,
// and what is said about it, is told by whoever runs the tunnel.
package websocket

import (
	"net/http"
	"net/textproto"
	"strings"
)

// name is the only protocol that is ever switched to.
const name = "websocket"

// Requested reports a request to switch to WebSocket, and to nothing else. A
// tunnel to any other protocol, h2c above all, would carry requests past every
// check of the gateway.
func Requested(r *http.Request) bool {
	if Stream(r) != nil {
		return true
	}
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor >= 1 &&
		r.ContentLength == 0 && switches(r.Header)
}

// Switched reports an answer that switches to WebSocket.
func Switched(resp *http.Response) bool {
	return resp.StatusCode == http.StatusSwitchingProtocols && switches(resp.Header)
}

// Mark writes the two headers of a switch. Both end at each hop, so that they
// are not among those that were copied.
func Mark(h http.Header) {
	h["Connection"] = []string{"Upgrade"}
	h["Upgrade"] = []string{name}
}

// switches reports the two headers: Connection is a list of words, Upgrade must
// be one.
func switches(h http.Header) bool {
	if upgrade := h["Upgrade"]; len(upgrade) != 1 || !strings.EqualFold(textproto.TrimString(upgrade[0]), name) {
		return false
	}
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(token), "upgrade") {
				return true
			}
		}
	}
	return false
}
