package edge

import (
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// fields are those of an honest request over HTTP/2, one changed, one added:
// pseudo headers come first whatever is asked for.
func fields(change map[string]string, more ...string) []string {
	var all []string
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "sandbox.test"}, {":path", "/files?path=/x"}} {
		if v, ok := change[f[0]]; ok {
			f[1] = v
		}
		if f[1] != "\x00none" {
			all = append(all, f[0], f[1])
		}
	}
	return append(append(all, more...), "e2b-sandbox-id", "a", "e2b-sandbox-port", "49983")
}

// refusedH2 sends a request on a connection of its own that must end in an error
// of the stream, of the connection or of the request, and must not reach the
// upstream.
func (g *rig) refusedH2(t *testing.T, name, body string, fields ...string) {
	t.Helper()
	c := g.DialH2()
	s := c.Wait(c.Fields(body, fields...))
	if s.Status != "" && s.Status != "400" && s.Status != "404" && s.Status != "431" || s.Status == "" && s.Reset == nil && c.Closed() == nil {
		t.Errorf("%s: answered %s %q", name, s.Status, s.Body)
	}
	if got := g.take(); got != "" {
		t.Errorf("%s: reached the upstream: %q", name, got)
	}
}

// Field reports M03, M04, M12 and M15.
func TestOverHTTP2NoRequestHasTwoReadings(t *testing.T) {
	g := open(t, harness.TLS2, answer200)
	c := g.DialH2()
	if s := c.Wait(c.Fields("", fields(nil)...)); s.Status != "200" || g.take() == "" {
		t.Fatalf("the honest request: %+v", s)
	}
	const none = "\x00none"
	for name, f := range map[string][]string{
		"two paths":               fields(nil, ":path", "/init"),
		"two authorities":         fields(nil, ":authority", "b.test"),
		"two methods":             fields(nil, ":method", "POST"),
		"two schemes":             fields(nil, ":scheme", "http"),
		"a pseudo header late":    append(fields(nil), ":path", "/init"),
		"an unknown one":          fields(nil, ":protocol-x", "y"),
		"one of answers":          fields(nil, ":status", "200"),
		"another host":            fields(nil, "host", "other.test"),
		"no path":                 fields(map[string]string{":path": none}),
		"an empty path":           fields(map[string]string{":path": ""}),
		"no method":               fields(map[string]string{":method": none}),
		"no scheme":               fields(map[string]string{":scheme": none}),
		"a space in the path":     fields(map[string]string{":path": "/files HTTP/1.1"}),
		"a line in the path":      fields(map[string]string{":path": "/files\r\nX: y"}),
		"a NUL in the path":       fields(map[string]string{":path": "/files\x00"}),
		"a path without a slash":  fields(map[string]string{":path": "files"}),
		"a whole URL as path":     fields(map[string]string{":path": "https://sandbox.test/init"}),
		"two slashes":             fields(map[string]string{":path": "//init"}),
		"an asterisk":             fields(map[string]string{":path": "*"}),
		"a space in the method":   fields(map[string]string{":method": "GET /init HTTP/1.1\r\n"}),
		"a line in the method":    fields(map[string]string{":method": "GET\r\nX: y"}),
		"trace":                   fields(map[string]string{":method": "TRACE"}),
		"connect":                 {":method", "CONNECT", ":authority", "127.0.0.1:22555"},
		"connect with a path":     fields(map[string]string{":method": "CONNECT"}),
		"extended connect":        fields(map[string]string{":method": "CONNECT"}, ":protocol", "websocket"),
		"a line in the authority": fields(map[string]string{":authority": "sandbox.test\r\nX: y"}),
		"a line in a value":       fields(nil, "x-own", "a\r\nX-User-Id: b"),
		"a NUL in a value":        fields(nil, "x-own", "a\x00b"),
		"a capital in a name":     fields(nil, "X-Own", "a"),
		"a colon in a name":       fields(nil, "x-own: a\r\nx", "a"),
		"a space in a name":       fields(nil, "x own", "a"),
		"an empty name":           fields(nil, "", "a"),
		"an encoding":             fields(nil, "transfer-encoding", "chunked"),
		"a connection":            fields(nil, "connection", "x-forwarded-for"),
		"an upgrade":              fields(nil, "upgrade", "h2c"),
		"a keep-alive":            fields(nil, "keep-alive", "1"),
		"a te that is no trailer": fields(nil, "te", "gzip"),
		"two ids":                 fields(nil, "e2b-sandbox-id", "b"),
		"two ports":               fields(nil, "e2b-sandbox-port", "8080"),
	} {
		g.refusedH2(t, name, "", f...)
	}
	for name, f := range map[string][]string{
		"a length that is too short": fields(map[string]string{":method": "POST"}, "content-length", "1"),
		"a length that is too long":  fields(map[string]string{":method": "POST"}, "content-length", "100"),
		"two lengths":                fields(map[string]string{":method": "POST"}, "content-length", "3", "content-length", "4"),
		"a length with a letter":     fields(map[string]string{":method": "POST"}, "content-length", "3a"),
		"an empty length":            fields(map[string]string{":method": "POST"}, "content-length", ""),
		"a length with a sign":       fields(map[string]string{":method": "POST"}, "content-length", "+3"),
	} {
		g.refusedH2(t, name, "abc", f...)
	}
	for _, path := range tricks {
		g.refusedH2(t, path, "", fields(map[string]string{":path": path})...)
	}
}

// Field reports M05 and M06: names are in lower case here.
func TestOverHTTP2NothingForgedComesThrough(t *testing.T) {
	g := open(t, harness.TLS2, answer200)
	c := g.DialH2()
	s := c.Wait(c.Fields("", fields(nil, "x-user-id", "forged", "x_user_id", "forged", "x.user.id", "forged", "sandbox_id", "forged", "rock-host-ip", "forged",
		"x-rock-target-port", "forged", "cookie", "forged", "cookie", "a=forged", "x-api-key", "forged", "x-forwarded-for", "forged", "x-forwarded-host", "forged",
		"proxy-authorization", "forged", "http2-settings", "forged", "x-own", "passes")...))
	got := g.take()
	if s.Status != "200" || strings.Contains(got, "forged") || !strings.Contains(got, "X-Own: passes\r\n") ||
		!strings.Contains(got, "X-Forwarded-Proto: https\r\n") || !strings.Contains(got, "X-Forwarded-For: 127.0.0.1\r\n") {
		t.Errorf("%+v, upstream %q", s, got)
	}
}
