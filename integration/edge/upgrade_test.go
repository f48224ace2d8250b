package edge

import (
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// Field report M02.
func TestOnlyAWebSocketIsAskedFor(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	for name, head := range map[string]string{
		"h2c":                    "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
		"settings not named":     "Connection: Upgrade, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
		"tcp":                    "Connection: Upgrade, close\r\nUpgrade: tcp\r\n",
		"a list":                 "Connection: Upgrade, close\r\nUpgrade: websocket, h2c\r\n",
		"two lines":              "Connection: Upgrade, close\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
		"a version":              "Connection: Upgrade, close\r\nUpgrade: websocket/13\r\n",
		"not named":              "Connection: close\r\nUpgrade: websocket\r\n",
		"in another spelling":    "Connection: Upgrade, close\r\nUp_grade: websocket\r\n",
		"named but not there":    "Connection: Upgrade, close\r\n",
		"TLS":                    "Connection: Upgrade, close\r\nUpgrade: TLS/1.3\r\n",
		"settings and websocket": "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: websocket, h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
	} {
		answer := g.raw(t, "GET /files?path=/x HTTP/1.1\r\n"+target+head+"\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		got := g.take()
		if status(answer) != "200" || strings.Contains(got, "\nUpgrade:") || strings.Contains(got, "Http2-Settings") || strings.Contains(got, "PRI *") {
			t.Errorf("%s: %.100q, upstream %q", name, answer, got)
		}
	}
}

// Field report M02: an upstream that agrees all the same gets nothing more.
func TestASwitchNobodyAskedForIsNone(t *testing.T) {
	for name, answer101 := range map[string]string{
		"h2c":       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"websocket": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, harness.Cleartext, answer101)
			for _, line := range []string{"GET /health", "GET /sandboxes/a"} {
				answer := g.raw(t, line+" HTTP/1.1\r\n"+target+"Connection: Upgrade, close\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
				if s := status(answer); s < "500" || s > "503" {
					t.Errorf("%s: %q", line, answer)
				}
				if got := g.take(); strings.Contains(got, "PRI *") {
					t.Errorf("%s: reached the upstream: %q", line, got)
				}
			}
		})
	}
}

// Field report M02: HTTP/2 is not spoken in clear text unless the operator says
// so.
func TestThePrefaceOfHTTP2OpensNothingInClearText(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	answer := g.raw(t, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	if s := status(answer); s == "200" || g.take() != "" {
		t.Errorf("%q", answer)
	}
}
