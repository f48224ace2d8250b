package handlers

import (
	"net/http"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
)

// sdkRequest is a call as the Python SDK sends it.
func sdkRequest() *http.Request {
	r, _ := http.NewRequest(http.MethodPost, "/process.Process/Start", nil)
	r.RequestURI, r.Host, r.RemoteAddr = "/process.Process/Start", "sandbox.example.com", "192.0.2.7:4711"
	for name, value := range map[string]string{
		"E2b-Sandbox-Id": "sbx-1", "E2b-Sandbox-Port": "49983", "X-Access-Token": "token", "Authorization": "Basic dXNlcjo=",
		"User-Agent": "e2b-python-sdk/2.34.0", "Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive",
		"Content-Type": "application/connect+json", "Content-Length": "120", "Connect-Protocol-Version": "1",
		"Connect-Timeout-Ms": "60000", "Keepalive-Ping-Interval": "50",
	} {
		r.Header.Set(name, value)
	}
	r.Header["Lang_version"] = []string{"3.12"}
	return r
}

// BenchmarkOutbound is the cost of the headers of a request that is sent on.
func BenchmarkOutbound(b *testing.B) {
	r := sdkRequest()
	b.ReportAllocs()
	for b.Loop() {
		outbound(b.Context(), r, auth.Envd, nil)
	}
}
