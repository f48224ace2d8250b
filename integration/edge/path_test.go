package edge

import (
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// tricks are paths that some server somewhere reads as one that nobody may ask
// for, or as one for which no credential is needed. None may leave the gateway.
var tricks = []string{
	// envd's management, field report M03
	"/init", "/init/", "//init", "///init", "/files/../init", "/./init", "/%69nit", "/%2finit", "/%2Finit", "/files/%2e%2e/init",
	"/files/%2E%2e/init", "/files/..%2finit", "/x/../init", "/INIT", "/Init", "/init;x", "/init;/x", "/init%00", "/init%2f", "/init%20",
	"/init%23", "/init?x", "/init.", "/init%0d%0a", "\\init", "/\\init", "/%5cinit", "/..\\init", "/health/../init", "/health%2f..%2finit",
	"/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade", "/upgrade/", "/%66reeze", "//collapse",
	// ROCK's own doors
	"/apis/envs/sandbox/v1/host/proxy/x", "/apis/envs/sandbox/v1/get_token", "/apis/envs/sandbox/v1/get_nacos_config",
	"/apis/envs/sandbox/v1/ops/tasksets", "/apis/envs/sandbox/v1/sandboxes/a/proxy/port/22555/x", "/apis/envs/sandbox/v1/sandboxes/a/portforward?port=22",
	"/apis/envs/sandbox/v1/sandboxes/a/vnc", "/apis/envs/sandbox/v1/execute", "//apis/envs/sandbox/v1/get_token", "/APIS/envs/sandbox/v1/get_token",
	"/sandboxes/../apis/envs/sandbox/v1/get_token", "/sandboxes/a/../../apis/envs/sandbox/v1/get_token", "/sandboxes/%2e%2e/apis/envs/sandbox/v1/get_token",
	"/sandboxes/..%2f..%2fapis", "/sandboxes/..%2fapis%2fenvs%2fsandbox%2fv1%2fget_token", "/sandboxes/%252e%252e%252fapis", "/sandboxes/a%2f..%2f..%2fapis",
	"/sandboxes/a/..%5c..%5capis", "/v2/../apis/envs/sandbox/v1/get_token", "/v2/sandboxes/../../apis", "/templates/../apis/envs/sandbox/v1/get_token",
	"/templates/%2e%2e/apis", "/templates/..%2fapis", "/templates/%252e%252e/apis", "/templates/..%252fapis", "/templates/..;/apis", "/templates/a%00b",
	"/templates/..%5capis", "/templates/%c0%ae%c0%ae/apis", "/volumecontent/..%2f..%2fapis", "/files/..;/apis", "/files;/../apis",
	"/docs", "/openapi.json", "/metrics", "/admin",
	// ladders, field report M04
	"/health/../process.Process/List", "/health/%2e%2e/process.Process/List", "/health%2f..%2fprocess.Process/List", "/HEALTH", "/Health",
	"/health;x", "/health%00", "/health\\", "/health/", "//health", "/./health", "/health/.", "/health%20", "/health.", "/health%2f",
	"/FILES", "/files/", "//files", "/files;x", "/files%00", "/process.process/../process.Process/List", "//process.Process/List",
	"/process.Process//List", "/process.Process/List/", "/process.Process/List;x", "/process.Process/List%00",
	// ids, field report M12
	"/sandboxes/%2a", "/sandboxes/a:b", "/sandboxes/x%0d%0aDEL", "/sandboxes/%7bx%7d", "/sandboxes/%ff", "/sandboxes/..", "/sandboxes/.", "/sandboxes/-a",
}

// Field reports M03, M04 and M12; contract checklist 10.
func TestNoSpellingOfAPathGetsPastTheGateway(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	for _, path := range tricks {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			g.refused(t, method+" "+path, method+" "+path+" HTTP/1.1\r\n"+target+"Content-Length: 0\r\n\r\n", "400", "404")
		}
	}
}

// Field reports M03 and M04.
func TestOnlyPathsOnThisServerAreRequestTargets(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	for name, line := range map[string]string{
		"absolute, management":        "GET http://sandbox.test/init HTTP/1.1",
		"absolute, two slashes":       "GET http://sandbox.test//init HTTP/1.1",
		"absolute, dots":              "GET http://sandbox.test/files/../init HTTP/1.1",
		"absolute, encoded":           "GET http://sandbox.test/%69nit HTTP/1.1",
		"absolute, ROCK's door":       "GET http://127.0.0.1:22555/apis/envs/sandbox/v1/get_token HTTP/1.1",
		"absolute, no path":           "GET http://sandbox.test HTTP/1.1",
		"two slashes and a host":      "GET //evil.test/init HTTP/1.1",
		"asterisk for a GET":          "GET * HTTP/1.1",
		"connect":                     "CONNECT 127.0.0.1:22555 HTTP/1.1",
		"connect with a path":         "CONNECT /health HTTP/1.1",
		"trace":                       "TRACE /health HTTP/1.1",
		"no slash":                    "GET init HTTP/1.1",
		"no target":                   "GET  HTTP/1.1",
		"a space in it":               "GET /files /x HTTP/1.1",
		"a tab in it":                 "GET /files\t/x HTTP/1.1",
		"a control byte in it":        "GET /files\x01 HTTP/1.1",
		"a NUL in it":                 "GET /files\x00 HTTP/1.1",
		"a method with a strange one": "GE(T /files HTTP/1.1",
		"an encoding of nothing":      "GET /%zz HTTP/1.1",
		"a fragment":                  "GET /init#/files HTTP/1.1",
	} {
		g.refused(t, name, line+"\r\n"+target+"Content-Length: 0\r\n\r\n", "400", "404")
	}
	// net/http answers this one itself: it is about the server.
	g.refused(t, "asterisk", "OPTIONS * HTTP/1.1\r\n"+target+"\r\n", "200")
}

// Contract checklist 12: what may be asked for arrives as it was sent.
func TestWhatMayPassIsNotRewritten(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	for _, path := range []string{"/health?x=%2B&y=1+2", "/files?path=%2Fa%20b+c&z&z=", "/%68ealth", "/templates/aliases/ns%2Fname", "/sandboxes/a?x=%2e%2e"} {
		g.raw(t, "GET "+path+" HTTP/1.1\r\n"+target+"Connection: close\r\n\r\n")
		if got, want := g.take(), "GET "+path+" HTTP/1.1\r\n"; len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("%s arrived as %.60q", path, got)
		}
	}
}
