// Package protocol tells apart the wire protocols in which a request can be
// made and a failure can be answered. It looks at methods and content types
// only; it never reads a body.
package protocol

import (
	"net/http"
	"strings"
)

// Protocol is how the client of a request expects to be spoken to.
type Protocol uint8

const (
	// Plain is everything that is not an RPC: /files, /health and the control
	// plane. Errors are E2B's JSON.
	Plain Protocol = iota
	// Page is a person's browser asking for a page. Errors are HTML.
	Page
	// ConnectUnary is a Connect call with one message each way. Errors are an
	// HTTP status and Connect's error JSON.
	ConnectUnary
	// ConnectStream is a Connect call made of envelopes. Errors are HTTP 200
	// and an EndStream envelope.
	ConnectStream
	// GRPC ends in trailers.
	GRPC
	// GRPCWeb ends in a trailer frame of the body.
	GRPCWeb
	// GRPCWebText is GRPCWeb in base64.
	GRPCWebText
)

// EventStream is the media type of server-sent events, which are not framed and
// may go on for ever.
const EventStream = "text/event-stream"

// String is the protocol's name in logs.
func (p Protocol) String() string {
	return [...]string{"plain", "page", "connect", "connect-stream", "grpc", "grpc-web", "grpc-web-text"}[p]
}

// Framed reports a protocol whose bodies are made of frames, the last of which,
// or the trailers after them, say how the call has ended.
func (p Protocol) Framed() bool { return p >= ConnectStream }

// OfRPC is the protocol of a request to an RPC's path.
func OfRPC(r *http.Request) Protocol {
	if p, ok := Framing(r.Header.Get("Content-Type")); ok {
		return p
	}
	return ConnectUnary
}

// OfApp is the protocol of a request to a user's own app: of what has a way of its
// own to tell a failure, gRPC alone can be told from its content type for sure.
func OfApp(r *http.Request) Protocol {
	if p, _ := Framing(r.Header.Get("Content-Type")); p == GRPC {
		return p
	}
	return OfPage(r)
}

// OfPage is the protocol of every other request.
func OfPage(r *http.Request) Protocol {
	if isNavigation(r) {
		return Page
	}
	return Plain
}

// Framing recognises the content types whose bodies are made of frames.
func Framing(contentType string) (Protocol, bool) {
	mediaType := MediaType(contentType)
	switch {
	case strings.HasPrefix(mediaType, "application/connect+"):
		return ConnectStream, true
	case mediaType == "application/grpc-web-text", strings.HasPrefix(mediaType, "application/grpc-web-text+"):
		return GRPCWebText, true
	case mediaType == "application/grpc-web", strings.HasPrefix(mediaType, "application/grpc-web+"):
		return GRPCWeb, true
	case mediaType == "application/grpc", strings.HasPrefix(mediaType, "application/grpc+"):
		return GRPC, true
	}
	return Plain, false
}

// MediaType is a Content-Type without its parameters, in lower case.
func MediaType(contentType string) string {
	if i := strings.IndexByte(contentType, ';'); i >= 0 {
		contentType = contentType[:i]
	}
	return strings.ToLower(strings.TrimSpace(contentType))
}

// isNavigation reports a browser asking for a page. A script in a page has a
// browser's User-Agent too, so the fetch metadata decides where it is sent
// (W3C Fetch Metadata, Sec-Fetch-Mode) and the Accept header elsewhere.
func isNavigation(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	accept := r.Header.Get("Accept")
	if !strings.Contains(accept, "text/html") {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return r.Header.Get("X-Requested-With") == "" && strings.Contains(r.Header.Get("User-Agent"), "Mozilla/")
}
