package faults

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// The bytes of this file are written down by hand, or framed by hand: nothing
// here is made by the code under test.

// frame is an envelope of Connect, gRPC and gRPC-Web.
func frame(flags byte, payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(payload)))) + payload
}

const (
	startEvent      = `{"event":{"start":{"pid":7}}}`
	endEvent        = `{"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3"}}}`
	startEventProto = "\x0a\x04\x0a\x02\x08\x07"         // event { start { pid: 7 } }
	endEventProto   = "\x0a\x06\x1a\x04\x08\x06\x10\x01" // event { end { exit_code: 3 exited: true } }
)

// kind is one of the seven sorts of call.
type kind struct {
	name         string
	method, path string
	contentType  string // of the request, "" for none
	request      string // the request's body
	// answerType is the Content-Type of the answer, and length its
	// Content-Length: 0 for a chunked body.
	answerType string
	length     int
	// first and second are what the body is made of: two messages, the second
	// of which says that the process is over, or two pieces of a body that
	// has none. close ends the body in the protocol, trailers do after it.
	first, second, close string
	trailers             string
	encode               func(string) string // of each of them on the wire
}

var kinds = []*kind{
	{
		name: "connect+json", method: "POST", path: "/process.Process/Start",
		contentType: "application/connect+json", request: frame(0, `{"process":{"cmd":"x"}}`), answerType: "application/connect+json",
		first: frame(0, startEvent), second: frame(0, endEvent), close: frame(2, "{}"),
	},
	{
		name: "connect+proto", method: "POST", path: "/process.Process/Start",
		contentType: "application/connect+proto", request: frame(0, "\x0a\x03\x0a\x01x"), answerType: "application/connect+proto",
		first: frame(0, startEventProto), second: frame(0, endEventProto), close: frame(2, "{}"),
	},
	{
		name: "unary", method: "POST", path: "/filesystem.Filesystem/Stat",
		contentType: "application/json", request: `{"path":"/x"}`, answerType: "application/json", length: 30,
		first: `{"entry":{"name`, second: `":"x"}       }`, close: "\n",
	},
	{
		name: "gRPC", method: "POST", path: "/process.Process/Start",
		contentType: "application/grpc+proto", request: frame(0, "\x0a\x03\x0a\x01x"), answerType: "application/grpc+proto",
		first: frame(0, startEventProto), second: frame(0, endEventProto), trailers: "Grpc-Status: 0\r\nX-Own: kept\r\n",
	},
	{
		name: "gRPC-Web", method: "POST", path: "/process.Process/Start",
		contentType: "application/grpc-web+proto", request: frame(0, "\x0a\x03\x0a\x01x"), answerType: "application/grpc-web+proto",
		first: frame(0, startEventProto), second: frame(0, endEventProto), close: frame(0x80, "grpc-status: 0\r\n"),
	},
	{
		name: "gRPC-Web text", method: "POST", path: "/process.Process/Start",
		contentType: "application/grpc-web-text+proto", request: base64.StdEncoding.EncodeToString([]byte(frame(0, "\x0a\x03\x0a\x01x"))),
		answerType: "application/grpc-web-text+proto",
		first:      frame(0, startEventProto), second: frame(0, endEventProto), close: frame(0x80, "grpc-status: 0\r\n"),
		encode: func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	},
	{
		name: "SSE", method: "GET", path: "/files?path=/events", answerType: "text/event-stream",
		first: "data: a\n\n\n\ndata: b\r\n\r\n:keepalive\n\n", second: "event: end\ndata: c\n\n", close: ":\n",
	},
	{
		name: "file", method: "GET", path: "/files?path=/file", answerType: "application/octet-stream", length: 30,
		first: "\x00\x00\x00\x00\x05first bytes", second: "second bytes\x02", close: "\n",
	},
}

func (k *kind) wire(s string) string {
	if k.encode == nil || s == "" {
		return s
	}
	return k.encode(s)
}

// call is the request of this kind to a sandbox.
func (k *kind) call(sandbox string, header ...[2]string) call {
	h := append([][2]string{{"E2b-Sandbox-Id", sandbox}, {"E2b-Sandbox-Port", "49983"}}, header...)
	if k.contentType != "" {
		h = append(h, [2]string{"Content-Type", k.contentType})
	}
	return call{method: k.method, path: k.path, header: h, body: k.request}
}

// head is how the sandbox's answer begins.
func (k *kind) head() string {
	length := "Transfer-Encoding: chunked"
	if k.length > 0 {
		length = fmt.Sprintf("Content-Length: %d", k.length)
	}
	return "HTTP/1.1 200 OK\r\nContent-Type: " + k.answerType + "\r\n" + length + "\r\n\r\n"
}

// piece is a part of the body as it goes over the wire.
func (k *kind) piece(s string) string {
	if k.length > 0 || s == "" {
		return s
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(s), s)
}

// framed reports a body of which only whole frames are of use.
func (k *kind) framed() bool {
	return strings.HasPrefix(k.contentType, "application/connect+") || strings.HasPrefix(k.contentType, "application/grpc")
}

// texts are what a client is told, word for word. # stands for the sandbox.
var texts = map[string]struct {
	code   string
	status int // of unary calls
	plain  int // of everything that is no RPC
	grpc   string
	text   string
}{
	"lost":   {"aborted", 500, 500, "10", "The connection to sandbox # was lost; the sandbox may still be running, but the outcome of this call is unknown"},
	"early":  {"aborted", 500, 500, "10", "The answer of sandbox # ended before it was complete; the sandbox may still be running, but the outcome of this call is unknown"},
	"late":   {"deadline_exceeded", 504, 504, "4", "The time allowed for this call ran out"},
	"odd":    {"internal", 500, 500, "13", "The answer for sandbox # could not be understood; the outcome of this call is unknown"},
	"gone":   {"unavailable", 502, 502, "14", "The sandbox # was not found: it was killed, it expired, or it never existed"},
	"paused": {"failed_precondition", 400, 400, "9", "The sandbox # is paused; it must be resumed before it can be used"},
}

func text(word, sandbox string) string { return strings.ReplaceAll(texts[word].text, "#", sandbox) }
