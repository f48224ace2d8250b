package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// Field reports E01, E02, E08, M12 and M15; contract checklist 5, 6, 8 and 9.
func TestATargetWithTwoReadingsIsRefused(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	const id, port = "E2b-Sandbox-Id: a\r\n", "E2b-Sandbox-Port: 49983\r\n"
	for name, head := range map[string]string{
		"no headers":                 "",
		"no port":                    id,
		"no id":                      port,
		"two ids":                    id + "E2b-Sandbox-Id: b\r\n" + port,
		"the same id twice":          id + id + port,
		"two ids in two cases":       id + "e2b-sandbox-id: b\r\n" + port,
		"joined ids":                 "E2b-Sandbox-Id: a, b\r\n" + port,
		"two ports":                  id + port + "E2b-Sandbox-Port: 8080\r\n",
		"joined ports":               id + "E2b-Sandbox-Port: 49983, 22\r\n",
		"port 0":                     id + "E2b-Sandbox-Port: 0\r\n",
		"port 65536":                 id + "E2b-Sandbox-Port: 65536\r\n",
		"port -1":                    id + "E2b-Sandbox-Port: -1\r\n",
		"port +80":                   id + "E2b-Sandbox-Port: +80\r\n",
		"port 080":                   id + "E2b-Sandbox-Port: 080\r\n",
		"port 1e3":                   id + "E2b-Sandbox-Port: 1e3\r\n",
		"the shell's port":           id + "E2b-Sandbox-Port: 22\r\n",
		"ROCK's agent's port":        id + "E2b-Sandbox-Port: 22555\r\n",
		"id *":                       "E2b-Sandbox-Id: *\r\n" + port,
		"id a:b":                     "E2b-Sandbox-Id: a:b\r\n" + port,
		"id ../x":                    "E2b-Sandbox-Id: ../x\r\n" + port,
		"id with an encoding":        "E2b-Sandbox-Id: x%0d%0aDEL\r\n" + port,
		"id {x}":                     "E2b-Sandbox-Id: {x}\r\n" + port,
		"id of no UTF-8":             "E2b-Sandbox-Id: \xff\xfe\r\n" + port,
		"id of 10 KB":                "E2b-Sandbox-Id: " + strings.Repeat("a", 10<<10) + "\r\n" + port,
		"id in another spelling":     "E2b_Sandbox_Id: a\r\n" + port,
		"port in another spelling":   id + "E2b.Sandbox.Port: 49983\r\n",
		"id of a sandbox that is no": "E2b-Sandbox-Id: \r\n" + port,
	} {
		for _, line := range []string{"GET /files?path=/x", "GET /health"} {
			g.refused(t, line+", "+name, line+" HTTP/1.1\r\nHost: sandbox.test\r\n"+head+"\r\n", "400")
		}
	}
}

// Field report E01.
func TestAnyHostIsRoutedByItsHeaders(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	for _, host := range []string{"192.168.100.66:3002", "[fd00::5]:3002", "localhost:3002", "SANDBOX.test.", "sandbox.test:443"} {
		answer := g.raw(t, "GET /files?path=/x HTTP/1.1\r\nHost: "+host+"\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 49983\r\nConnection: close\r\n\r\n")
		if got := g.take(); status(answer) != "200" || !strings.Contains(got, "\r\nHost: "+host+"\r\n") {
			t.Errorf("%s: %q, upstream %q", host, answer, got)
		}
	}
}

// Field reports H07, M01, M02, M05, M06, M07 and M08.
func TestWhatTheGatewayAloneMaySayIsGoneUpstream(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	names := []string{
		"X-User-Id", "X-Namespace", "X-Experiment-Id", "X-Cluster", "X-ROCK-Target-Port", "rock-host-ip", "sandbox_id", "Route-Key",
		"e2b-traffic-access-token", "Cookie", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Uri", "Forwarded", "X-Real-Ip",
		"Proxy-Authorization", "Proxy", "HTTP2-Settings", "Te", "Keep-Alive",
	}
	var head strings.Builder
	for _, name := range names {
		for _, s := range []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", ".")} {
			fmt.Fprintf(&head, "%s: forged\r\n", s)
		}
	}
	head.WriteString("E2b_Sandbox_Id: forged\r\nX_Access_Token: forged\r\nX-Own: passes\r\nLang_version: 3\r\n" +
		"Connection: X-Forwarded-For, E2b-Sandbox-Id\r\nConnection: close, E2b-Sandbox-Port\r\n")
	for plane, line := range map[string]string{"data": "GET /files?path=/x", "control": "GET /sandboxes/a"} {
		answer := g.raw(t, line+" HTTP/1.1\r\n"+target+head.String()+"\r\n")
		got := g.take()
		if status(answer) != "200" || strings.Contains(got, "forged") || strings.Count(got, "passes") != 1 || strings.Count(got, "X-Forwarded-For: 127.0.0.1\r\n") != 1 {
			t.Errorf("%s: %.100q, upstream %q", plane, answer, got)
		}
		if targeted := strings.Count(got, "E2b-Sandbox-"); plane == "data" && targeted != 2 || plane == "control" && targeted != 0 {
			t.Errorf("%s: upstream %q", plane, got)
		}
	}
}

// Field report M06.
func TestATrustedProxysWordGoesOn(t *testing.T) {
	u := newUpstream(t, answer200)
	g := &rig{u, inprocess.Start(t, u.caddyfile("trusted_proxies static 127.0.0.0/8"), harness.Cleartext)}
	g.raw(t, "GET /files?path=/x HTTP/1.1\r\n"+target+"X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: public.test\r\nX_Forwarded_Proto: forged\r\nConnection: close\r\n\r\n")
	got := g.take()
	for _, want := range []string{"X-Forwarded-For: 203.0.113.9, 127.0.0.1\r\n", "X-Forwarded-Proto: https\r\n", "X-Forwarded-Host: public.test\r\n"} {
		if strings.Count(got, want) != 1 || strings.Contains(got, "forged") {
			t.Errorf("upstream %q", got)
		}
	}
}

// Field report M18.
func TestNothingOfTheRequestIsShownAsMarkup(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	const browser = "User-Agent: Mozilla/5.0\r\nAccept: text/html\r\nSec-Fetch-Mode: navigate\r\n"
	for name, request := range map[string]string{
		"path":       "GET /%3Cscript%3Ealert(1)%3C/script%3E HTTP/1.1\r\n" + target,
		"reserved":   "GET /x/%3Cscript%3E/../../init HTTP/1.1\r\n" + target,
		"sandbox id": "GET /files HTTP/1.1\r\nHost: sandbox.test\r\nE2b-Sandbox-Id: <script>\r\nE2b-Sandbox-Port: 49983\r\n",
		"host":       "GET /files HTTP/1.1\r\nHost: <script>.test\r\n",
		"query":      "GET /nothing?<script> HTTP/1.1\r\n" + target,
		"stream":     "POST /process.Process/Start HTTP/1.1\r\nHost: sandbox.test\r\nContent-Type: application/connect+json\r\nContent-Length: 0\r\n",
	} {
		answer := g.raw(t, request+browser+"Connection: close\r\n\r\n")
		if strings.Contains(answer, "<script>") || name != "host" && !strings.Contains(answer, "X-Content-Type-Options: nosniff\r\n") || strings.Contains(answer, g.address) {
			t.Errorf("%s: %q", name, answer)
		}
	}
}
