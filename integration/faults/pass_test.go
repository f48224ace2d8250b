package faults

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// exactly is an answer that passes to the byte.
func exactly(s seen) func(string) *seen {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	s.end = whole
	return func(string) *seen { return &s }
}

// Contract checklist 38; field reports B05, B06, H11.
func TestAnswersThatAreRightPassToTheByte(t *testing.T) {
	json, proto, unary := kindOf("connect+json"), kindOf("connect+proto"), kindOf("unary")
	grpc, web, text, sse, file := kindOf("gRPC"), kindOf("gRPC-Web"), kindOf("gRPC-Web text"), kindOf("SSE"), kindOf("file")
	withDetails := `{"error":{"code":"not_found","message":"/tmp/x \u00fc","details":[{"type":"a.B","value":"AAE","debug":{"x":null}}],"own":1},"metadata":{"x-own":["a","b"]}}`
	spaced := " \r\n{ \"metadata\" : { } ,\t\"own\" : [ 1 ] }\n"
	odd := frame(0, "{\r\n \"event\" : {\"own\":{\"a\":[]}}, \"\\u00fc\": 1e400 }\r\n") + frame(0, "") + frame(0, "not json \x00\xff")
	answer := func(k *kind, head, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", strings.ReplaceAll(head, "*", k.answerType), len(body), body)
	}
	failed := `{ "details" : [], "code":"not_found", "message":"no such file", "own":true}` + "\r\n"
	events := "\xef\xbb\xbf: a comment\r\ndata:no space\rdata\n\nid: 1\nretry: 10\n\n\n:\n\ndata: without an end"
	oneRun := base64.StdEncoding.EncodeToString([]byte(text.first + frame(0, "") + text.second + text.close))
	webTrailers := frame(0x80, "Grpc-Status: 5\r\nGRPC-MESSAGE:no%20file\r\nx-own:  a  \r\ngrpc-status-details-bin: AAE\r\n")

	run(t, []input{
		{"EndStream with details and metadata", json, body(json, "X-Own: a\r\n", json.first, frame(2, withDetails)), fin,
			exactly(seen{body: json.first + frame(2, withDetails), header: http.Header{"X-Own": {"a"}, "X-Accel-Buffering": {"no"}}})},
		{"EndStream with spaces and unknown fields", json, body(json, "", odd, frame(2, spaced)), fin, exactly(seen{body: odd + frame(2, spaced)})},
		{"an error after the end event", json, body(json, "", json.first, json.second, frame(2, withDetails)), fin,
			exactly(seen{body: json.first + json.second + frame(2, withDetails)})},
		{"EndStream of JSON behind messages of proto", proto, body(proto, "", proto.first+"\x00\x00\x00\x00\x00", frame(2, spaced)), fin,
			exactly(seen{body: proto.first + "\x00\x00\x00\x00\x00" + frame(2, spaced)})},
		{"a stream of known length", json, raw(answer(json, "200 OK\r\nContent-Type: *", json.first+json.close)), fin, exactly(seen{body: json.first + json.close})},

		{"unknown fields and spaces", unary, raw(answer(unary, "200 OK\r\nContent-Type: *;charset=utf-8", " {\r\n\"own\":1e400 }\n")), fin,
			exactly(seen{body: " {\r\n\"own\":1e400 }\n", header: http.Header{"Content-Type": {"application/json;charset=utf-8"}}})},
		{"an error of the call", unary, raw(answer(unary, "404 Not Found\r\nContent-Type: *", failed)), fin, exactly(seen{status: 404, body: failed})},
		{"a chunked message", unary, body(unary, "", "{\"a\"", ":1}"), fin, exactly(seen{body: `{"a":1}`})},

		{"trailers of an error", grpc, raw(grpc.head() + grpc.piece(grpc.first) + "0\r\nGrpc-Status: 5\r\nGrpc-Message: no%20file\r\nGrpc-Status-Details-Bin: AAE\r\nX-Own: a\r\n\r\n"), fin,
			exactly(seen{body: grpc.first, trailer: http.Header{"Grpc-Status": {"5"}, "Grpc-Message": {"no%20file"}, "Grpc-Status-Details-Bin": {"AAE"}, "X-Own": {"a"}}})},
		{"trailers that were announced", grpc, raw("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTrailer: Grpc-Status\r\nTransfer-Encoding: chunked\r\n\r\n" + grpc.piece(grpc.first) + "0\r\nGrpc-Status: 0\r\n\r\n"), fin,
			exactly(seen{body: grpc.first, trailer: http.Header{"Grpc-Status": {"0"}}, header: http.Header{"Content-Type": {"application/grpc"}}})},
		{"nothing but the end", grpc, raw(answer(grpc, "200 OK\r\nContent-Type: *\r\nGrpc-Status: 5\r\nGrpc-Message: no%20file", "")), fin,
			exactly(seen{header: http.Header{"Grpc-Status": {"5"}, "Grpc-Message": {"no%20file"}}})},
		{"compressed messages", grpc, raw(strings.Replace(grpc.head(), "\r\n", "\r\nGrpc-Encoding: gzip\r\n", 1) + grpc.piece(frame(1, "packed")+grpc.first) + "0\r\nGrpc-Status: 0\r\n\r\n"), fin,
			exactly(seen{body: frame(1, "packed") + grpc.first, trailer: http.Header{"Grpc-Status": {"0"}}, header: http.Header{"Grpc-Encoding": {"gzip"}}})},

		{"trailers in odd writing", web, body(web, "", web.first, frame(0, ""), webTrailers), fin, exactly(seen{body: web.first + frame(0, "") + webTrailers})},
		{"the other codec's name", web, raw(strings.Replace(web.head(), "+proto", "", 1) + web.piece(web.first+web.close)), fin,
			exactly(seen{body: web.first + web.close, header: http.Header{"Content-Type": {"application/grpc-web"}}})},
		{"the text form", web, raw(strings.Replace(web.head(), "grpc-web", "grpc-web-text", 1) + web.piece(oneRun)), fin, exactly(seen{body: oneRun})},
		{"base64 in one run", text, body(text, "", oneRun[:7], oneRun[7:]), fin, exactly(seen{body: oneRun})},

		{"comments, CRLF and a missing end", sse, body(sse, "", events), fin,
			exactly(seen{body: events, header: http.Header{"X-Accel-Buffering": {"no"}}})},
		{"events that end with their connection", sse, raw("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n" + events), fin,
			exactly(seen{body: events, header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}})},

		{"a part of a packed file", file, raw(answer(file, "206 Partial Content\r\nContent-Type: *\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-3/9", "\x1f\x8b\x02{")), fin,
			exactly(seen{status: 206, body: "\x1f\x8b\x02{", header: http.Header{"Content-Encoding": {"gzip"}, "Content-Range": {"bytes 0-3/9"}, "Content-Length": {"4"}}})},
		{"what looks like EndStream", file, raw(answer(file, "200 OK\r\nContent-Type: application/connect+json", frame(2, "{}")+"more")), fin, exactly(seen{body: frame(2, "{}") + "more"})},
	})
}
