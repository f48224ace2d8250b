package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// expected is what a cell's word stands for.
func (c *cell) expected() *seen {
	want := &seen{status: http.StatusOK, end: whole, body: c.delivered(), header: http.Header{"Content-Type": {c.answerType}}, trailer: http.Header{}}
	for word := range strings.FieldsSeq(c.want) {
		switch word {
		case "1", "2", "~":
		case "c":
			want.body += c.wire(c.close)
			if c.trailers != "" {
				want.trailer = http.Header{"Grpc-Status": {"0"}, "X-Own": {"kept"}}
			}
		case "cut":
			want.end = cut
		default:
			if c.place == beforeHead || c.length > 0 {
				return c.refusal(word)
			}
			c.closing(want, word, c.sandbox)
		}
	}
	return want
}

// delivered is what the client gets of the messages, or pieces.
func (c *cell) delivered() (body string) {
	for word := range strings.FieldsSeq(c.want) {
		switch word {
		case "1":
			body += c.wire(c.first)
		case "2":
			body += c.wire(c.second)
		case "~":
			sent := c.sent()
			body += sent[len(sent)-1]
		}
	}
	return body
}

// closing is how the gateway ends an answer that was under way.
func (k *kind) closing(want *seen, word, sandbox string) {
	told, message := texts[word], text(word, sandbox)
	if word == "ok" {
		told.grpc = "0"
	}
	switch {
	case strings.HasPrefix(k.contentType, "application/connect+"):
		payload := "{}"
		if word != "ok" {
			payload = connectError(told.code, message)
		}
		want.body += frame(2, payload)
	case strings.HasPrefix(k.contentType, "application/grpc-web"):
		block := "grpc-status: " + told.grpc + "\r\n"
		if word != "ok" {
			block += "grpc-message: " + message + "\r\n"
		}
		want.body += k.wire(frame(0x80, block))
	default:
		want.trailer = http.Header{"Grpc-Status": {told.grpc}}
		if word != "ok" {
			want.trailer.Set("Grpc-Message", message)
		}
	}
}

// refusal is the gateway's answer when there was none of the sandbox.
func (c *cell) refusal(word string) *seen {
	told, message := texts[word], text(word, c.sandbox)
	want := &seen{status: http.StatusOK, end: whole, header: http.Header{"Content-Type": {c.contentType}, "Cache-Control": {"no-store"}}}
	switch {
	case c.contentType == "application/grpc+proto":
		want.header.Set("Grpc-Status", told.grpc)
		want.header.Set("Grpc-Message", message)
	case c.framed():
		c.closing(want, word, c.sandbox)
	case c.name == "unary":
		want.status = told.status
		want.body = fmt.Sprintf(`{"code":%q,"message":%q}`, told.code, message)
	default:
		want.status = told.plain
		want.header.Set("Content-Type", "application/json; charset=utf-8")
		want.body = fmt.Sprintf(`{"sandboxId":%q,"message":%q,"code":%d}`, c.sandbox, message, told.plain)
	}
	return want
}

func connectError(code, message string) string {
	return fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, code, message)
}

// compare holds an answer against what is wanted. Headers are only looked at
// where they are wanted.
func (want *seen) compare(t *testing.T, what string, got *seen) {
	if got.status != want.status || got.body != want.body || got.end != want.end {
		t.Errorf("%s: got %d %.300q, %s\nwant %d %.300q, %s", what, got.status, got.body, got.end, want.status, want.body, want.end)
	}
	for name := range want.header {
		if got.header.Get(name) != want.header.Get(name) {
			t.Errorf("%s: %s: %q, want %q", what, name, got.header.Get(name), want.header.Get(name))
		}
	}
	if len(got.trailer) != len(want.trailer) {
		t.Errorf("%s: trailers %q, want %q", what, got.trailer, want.trailer)
	}
	for name := range want.trailer {
		if got.trailer.Get(name) != want.trailer.Get(name) {
			t.Errorf("%s: trailer %s: %q, want %q", what, name, got.trailer.Get(name), want.trailer.Get(name))
		}
	}
}
