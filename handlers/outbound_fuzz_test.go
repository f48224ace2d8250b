package handlers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// FuzzOutbound: of whatever is read as one request of the API, one request goes
// on, for the same path, and with nothing that a table keeps back.
func FuzzOutbound(f *testing.F) {
	for _, p := range []string{"/files?path=/x", "/%68ealth", "/sandboxes/a?x=%2e", "//init", "http://h/files", "/templates/a%2Fb", "/files#x", "/sandboxes/%2e%2e/x"} {
		f.Add("GET", p, "X_User_Id", "x")
	}
	f.Add("POST", "/process.Process/Start", "Connection", "authorization, e2b-sandbox-id")
	f.Add("GET /init HTTP/1.1\r\nA: b\r\n\r\nGET", "/files", "A\r\nB", "x\r\ny")
	f.Fuzz(func(t *testing.T, method, target, name, value string) {
		raw := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: h\r\nE2b-Sandbox-Id: a\r\nAuthorization: Basic dTo=\r\n%s: %s\r\n\r\n", method, target, name, value)
		in := bufio.NewReader(strings.NewReader(raw))
		r, err := http.ReadRequest(in)
		if err != nil || !sendable(r) {
			return
		}
		op := routing.Classify(r.Method, r.URL.Path)
		hop := auth.Control
		switch op.Plane {
		case routing.NoPlane:
			return
		case routing.DataPlane:
			hop = auth.Envd
		}
		Stranger.meet(r)
		out := outbound(t.Context(), r, hop, nil)
		pointAt(out, "http", "life", "10.0.0.1:1")
		out.Body = http.NoBody
		var wire bytes.Buffer
		if err := out.Write(&wire); err != nil {
			return
		}
		br := bufio.NewReader(&wire)
		got, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("%q became %q: %v", raw, wire.String(), err)
		}
		if rest, _ := io.ReadAll(br); len(rest) > 0 {
			t.Fatalf("%q became more than one request: %q", raw, rest)
		}
		if got.Method != r.Method || got.URL.Path != r.URL.Path || got.URL.RawQuery != r.URL.RawQuery {
			t.Errorf("%q became %s %s", raw, got.Method, got.RequestURI)
		}
		if op.Plane == routing.ControlPlane {
			if again, err := url.PathUnescape(got.URL.Path); err == nil && path.Clean(again) != r.URL.Path {
				t.Errorf("%q is another path when it is decoded twice: %q", raw, again)
			}
		}
		for name := range out.Header {
			if hop.PassageOf(name) == auth.Dropped {
				t.Errorf("%q: %s goes on", raw, name)
			}
		}
		if hop == auth.Envd && (got.Header.Get("E2b-Sandbox-Id") == "" || got.Header.Get("Authorization") == "") {
			t.Errorf("%q: Connection took something away: %v", raw, got.Header)
		}
	})
}
