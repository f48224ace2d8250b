package handlers

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// grpcEnd is how a gRPC or gRPC-Web answer ends: the status and the message of
// its headers or of its only frame.
func (r reply) grpcEnd(t *testing.T) (status, message string) {
	t.Helper()
	if status := r.header.Get("Grpc-Status"); status != "" {
		return status, r.header.Get("Grpc-Message")
	}
	body := r.body
	if strings.HasPrefix(r.header.Get("Content-Type"), "application/grpc-web-text") {
		b, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		body = string(b)
	}
	if len(body) < 5 || body[0] != 0x80 {
		t.Fatalf("no trailer frame: %q", body)
	}
	for line := range strings.SplitSeq(body[5:], "\r\n") {
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "grpc-status":
			status = value
		case "grpc-message":
			message = value
		}
	}
	return status, message
}

// What is no answer in gRPC is told in gRPC, with the other side's own code and
// text where it has given them.
func TestGRPCIsToldInGRPCWhatIsNoAnswerInIt(t *testing.T) {
	for _, contentType := range []string{"application/grpc", "application/grpc+proto", "application/grpc-web+proto", "application/grpc-web-text"} {
		for name, tc := range map[string]struct {
			rock             http.HandlerFunc
			err              error // of the registry, asked afresh
			status, contains string
		}{
			"a page":                 {answerWith(200, "text/html", "<html>"), nil, "13", "could not be understood"},
			"another protocol":       {answerWith(200, stream, frame(2, "{}")), nil, "13", "could not be understood"},
			"no answer in JSON":      {answerWith(200, unary, "{}"), nil, "13", "could not be understood"},
			"another success":        {answerWith(202, contentType, ""), nil, "13", "could not be understood"},
			"an error of the call":   {answerWith(404, unary, `{"code":"not_found","message":"no such file"}`), nil, "5", "no such file"},
			"a limit":                {answerWith(429, unary, `{"code":429,"message":"slow down"}`), nil, "8", "slow down"},
			"a redirect":             {answerWith(307, "", ""), nil, "12", "not offered"},
			"an unknown call":        {answerWith(404, unary, `{"detail":"Not Found"}`), nil, "12", "not offered"},
			"a dead sandbox":         {answerWith(503, unary, `{"code":"unavailable","message":"x"}`), routing.ErrGone, "14", "was not found"},
			"a lost, living sandbox": {answerWith(503, unary, `{"code":"unavailable","message":"x"}`), nil, "10", "still registered"},
		} {
			g := newRig(t)
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				g.registry.say(routing.StateRunning, tc.err)
				tc.rock(w, r)
			}
			r := g.call(t, "POST", start, contentType, "")
			status, message := r.grpcEnd(t)
			if r.status != 200 || r.header.Get("Content-Type") != contentType || status != tc.status || !strings.Contains(message, tc.contains) {
				t.Errorf("%s, %s: %d %v %s %q", contentType, name, r.status, r.header, status, message)
			}
		}
	}
}

// The text form may be asked for with the binary one, and the other way round.
func TestTheAnswersFormDecidesHowAStreamEnds(t *testing.T) {
	message := frame(0, "x")
	for _, tc := range []struct{ asked, answered, sent, rest string }{
		{"application/grpc-web", "application/grpc-web-text", base64.StdEncoding.EncodeToString([]byte(message)), "gAAA"},
		{"application/grpc-web-text", "application/grpc-web", message, "\x80\x00\x00"},
	} {
		g := newRig(t)
		g.proxy = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tc.answered)
			reset(w, tc.sent)
		}
		r := g.call(t, "POST", start, tc.asked, "")
		if rest, ok := strings.CutPrefix(r.body, tc.sent); !ok || !strings.HasPrefix(rest, tc.rest) || r.err != nil || r.header.Get("Content-Type") != tc.answered {
			t.Errorf("%s: %q, %v", tc.asked, r.body, r.err)
		}
		g.wantEnd(t, cause.UpstreamReset)
	}
}

// Server-sent events of a sandbox that has gone would be waited for for ever.
func TestEveryKindOfStreamIsRegisteredAndForgotten(t *testing.T) {
	for _, contentType := range []string{stream, "application/grpc", "application/grpc-web", "application/grpc-web-text", "text/event-stream"} {
		g := newRig(t)
		g.proxy = func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		target, kind := start, contentType
		if contentType == "text/event-stream" {
			target, kind = "/files?path=x", ""
		}
		c := g.dial(t)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\n%sContent-Type: %s\r\nContent-Length: 0\r\n\r\n", target, routingHeaders, kind)
		br := bufio.NewReader(c)
		if _, err := br.Peek(1); err != nil { // it is registered before its head is sent
			t.Fatal(err)
		}
		g.gateway.streams.end("a", cause.SandboxGone)
		g.wantEnd(t, cause.SandboxGone)
		if n := len(g.gateway.streams.of("")); n != 0 {
			t.Errorf("%s: %d streams are left", contentType, n)
		}
	}
}
