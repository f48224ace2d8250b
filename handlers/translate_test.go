package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// A success without a message is a bare parse error to its caller, or worse, an
// empty result.
func TestASuccessOfAUnaryCallHasAMessage(t *testing.T) {
	const (
		proto = "application/proto"
		long  = `{"entries":["` // and no end
	)
	answer := func(status, kind, rest string) string {
		return "HTTP/1.1 " + status + "\r\nContent-Type: " + kind + "\r\n" + rest
	}
	for name, tc := range map[string]struct {
		kind, answer string
		status       string
		body         string // begins with
		end          cause.Cause
	}{
		"another success":            {unary, answer("202 Accepted", unary, "Content-Length: 2\r\n\r\n{}"), "500", `{"code":"internal"`, cause.UpstreamInvalid},
		"no content":                 {unary, "HTTP/1.1 204 No Content\r\n\r\n", "500", `{"code":"internal"`, cause.UpstreamInvalid},
		"another success in proto":   {proto, answer("202 Accepted", proto, "Content-Length: 0\r\n\r\n"), "500", `{"code":"internal"`, cause.UpstreamInvalid},
		"nothing":                    {unary, answer("200 OK", unary, "Content-Length: 0\r\n\r\n"), "500", `{"code":"internal"`, cause.UpstreamInvalid},
		"nothing in chunks":          {unary, answer("200 OK", unary, "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "500", `{"code":"internal"`, cause.UpstreamInvalid},
		"nothing in proto":           {proto, answer("200 OK", proto, "Content-Length: 0\r\n\r\n"), "200", "", cause.OK},
		"nothing in proto, unmarked": {proto, answer("200 OK", proto, "\r\n"), "200", "", cause.OK},
		"half, unmarked":             {unary, answer("200 OK", unary, "\r\n{\"half"), "500", `{"code":"aborted"`, cause.UpstreamReset},
		"nothing, unmarked":          {unary, answer("200 OK", unary, "\r\n"), "500", `{"code":"aborted"`, cause.UpstreamReset},
		"whole, unmarked":            {unary, answer("200 OK", unary, "\r\n{\"a\":1}\n"), "200", "{\"a\":1}\n", cause.OK},
		"long, unmarked":             {unary, answer("200 OK", unary, "\r\n"+long+strings.Repeat("x", maxErrorBody)), "200", long + "xxx", cause.OK},
		"whole in chunks":            {unary, answer("200 OK", unary, "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"), "200", "{}", cause.OK},
		"packed, unmarked":           {unary, answer("200 OK", unary, "Content-Encoding: gzip\r\n\r\n\x1f\x8b"), "200", "\x1f\x8b", cause.OK},
	} {
		g := newRig(t)
		g.cluster.Proxy = answersAndLeaves(t, tc.answer)
		t.Cleanup(g.cluster.Proxy.Close)
		r := g.call(t, http.MethodPost, stat, tc.kind, "{}", "Accept-Encoding", "gzip")
		if fmt.Sprint(r.status) != tc.status || !strings.HasPrefix(r.body, tc.body) || r.err != nil {
			t.Errorf("%s: %d %.100q, %v", name, r.status, r.body, r.err)
		}
		if out := <-g.outcomes; out.End != tc.end {
			t.Errorf("%s: %v", name, out.End)
		}
	}
}
