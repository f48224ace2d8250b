package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// direct is a gateway that dials sandboxes itself, at the address and the port
// of the upstream.
func (u *upstream) direct(host, options string) string {
	_, port, _ := strings.Cut(u.address, ":")
	return fmt.Sprintf(`{
	e2b {
		keys off
		cluster default {
			admin http://%[1]s
			proxy http://%[1]s
			mode direct
			%[4]s
		}
		registry static {
			sandbox a {
				host %[2]s
				port 49983 %[3]s
				port 8080 %[3]s
				port 9000 %[3]s
			}
		}
	}
}
:8080 {
	e2b
}
`, u.address, host, port, options)
}

// Field report M13: the client hears that the sandbox cannot be reached, the
// operator hears why.
func TestARecordCannotMakeTheGatewayDialWhatNobodyAllowed(t *testing.T) {
	u := newUpstream(t, answer200)
	g := &rig{u, inprocess.Start(t, u.direct("127.0.0.1", "allow 0.0.0.0/0 ::/0"))}
	for _, host := range []string{"127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "::ffff:127.0.0.1", "fe80::1", "100.100.100.200"} {
		g.Reload(u.direct(host, "allow 0.0.0.0/0 ::/0"))
		answer := g.raw(t, "GET /files?path=/x HTTP/1.1\r\n"+target+"Connection: close\r\n\r\n")
		if status(answer) != "503" || strings.Contains(answer, host) {
			t.Errorf("%s: %q", host, answer)
		}
		if got := g.take(); got != "" {
			t.Errorf("%s: reached it: %q", host, got)
		}
	}
	if logs := g.Logs(); !strings.Contains(logs, `"level":"warn"`) || !strings.Contains(logs, "169.254.169.254: it is special (169.254.0.0/16)") {
		t.Errorf("no alarm in %s", logs)
	}
	g.Reload(u.direct("127.0.0.1", "allow 127.0.0.0/8"))
	if answer := g.raw(t, "GET /files?path=/x HTTP/1.1\r\n"+target+"Connection: close\r\n\r\n"); status(answer) != "200" {
		t.Errorf("allowed: %q", answer)
	}
}

// Field reports E08 and E14, M07.
func TestOnlyExposedPortsAreReachedAndWithoutForeignCredentials(t *testing.T) {
	u := newUpstream(t, answer200)
	g := &rig{u, inprocess.Start(t, u.direct("127.0.0.1", "allow 127.0.0.0/8\nports 8000-8999"))}
	for port, want := range map[string]string{"49983": "200", "8080": "200", "9000": "502", "22": "400", "22555": "400"} {
		answer := g.raw(t, "GET /files?path=/x HTTP/1.1\r\nHost: sandbox.test\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: "+port+"\r\n"+
			"X-API-KEY: secret\r\nX-Key: secret\r\nXRL-Authorization: secret\r\ne2b-traffic-access-token: secret\r\nCookie: of=app\r\nConnection: close\r\n\r\n")
		got := g.take()
		if status(answer) != want || (want == "200") != (got != "") || strings.Contains(got, "secret") || strings.Contains(got, "of=app") != (port == "8080") {
			t.Errorf("port %s: %.100q, upstream %q", port, answer, got)
		}
	}
}
