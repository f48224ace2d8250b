package websocket

import (
	"io"
	"net/http"
)

// A WebSocket over HTTP/2 is a request with the method CONNECT and the pseudo header
// :protocol (RFC 8441 section 4). Its body is what the client sends, the body of its
// answer what the client gets, and a status of 2xx says that the connection is open. Its
// handshake has neither Connection and Upgrade nor Sec-WebSocket-Key.

// protocol is where net/http has the pseudo header.
const protocol = ":protocol"

// Extended reports a request over HTTP/2 to open a WebSocket.
func Extended(r *http.Request) bool {
	named := r.Header[protocol]
	return r.Method == http.MethodConnect && r.ProtoMajor == 2 && len(named) == 1 && named[0] == name
}

// Misnamed reports a request that names a protocol and does not open a WebSocket by it.
func Misnamed(r *http.Request) bool { return r.Header[protocol] != nil && !Extended(r) }

// stream is the body of a request that was made by [AsUpgrade].
type stream struct {
	io.ReadCloser
	key string
}

// AsUpgrade is an extended request as HTTP/1.1 has it: GET with the headers of a switch,
// [Requested] and without a body. [Stream] has what the client sends.
func AsUpgrade(r *http.Request) *http.Request {
	key := NewKey()
	upgrade := r.WithContext(r.Context())
	upgrade.Method = http.MethodGet
	upgrade.ContentLength = 0
	upgrade.Body = &stream{r.Body, key}
	upgrade.Header = r.Header.Clone()
	delete(upgrade.Header, protocol)
	upgrade.Header["Sec-Websocket-Key"] = []string{key}
	Mark(upgrade.Header)
	return upgrade
}

// Stream is what the client of a request sends that [AsUpgrade] has made, nil for any
// other request.
func Stream(r *http.Request) io.Reader {
	if s, ok := r.Body.(*stream); ok {
		return s.ReadCloser
	}
	return nil
}

// Accepted reports an answer that has understood the handshake. With a request of
// [AsUpgrade] nobody else would notice: over HTTP/2 the client is not shown.
func Accepted(r *http.Request, resp *http.Response) bool {
	s, ok := r.Body.(*stream)
	return !ok || resp.Header.Get("Sec-Websocket-Accept") == AcceptOf(s.key)
}
