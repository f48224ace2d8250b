package faults

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// Field report B03: a site that compresses what it serves, and an app whose answers are
// long enough, in a form that is worth it.
func TestNoStreamIsCompressed(t *testing.T) {
	const everything = "encode {\n gzip 5\n zstd\n match {\n header Content-Type *\n }\n }"
	json := kindOf("connect+json")
	long := json.first
	for len(long) < 4096 {
		long += json.first
	}
	bodies := map[string]string{
		"application/connect+json": long + json.close, "application/connect+proto": long + json.close,
		"text/event-stream": "data: " + long + "\n\n", "text/event-stream; charset=utf-8": "data: " + long + "\n\n",
	}
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			g := openDirect(t, transport, everything, func(c *net.TCPConn, r *http.Request) bool {
				answerType := r.Header.Get("X-Answer")
				_, _ = fmt.Fprintf(c, "%s%x\r\n%s\r\n0\r\n\r\n", head(answerType, "Etag: \"own\"\r\n", "Vary: X-Own\r\n"),
					len(bodies[answerType]), bodies[answerType])
				return true
			})
			send := clientOf(t, &g.Endpoint)
			for answerType, body := range bodies {
				for _, port := range []string{"49999", "49983"} {
					method, path := "POST", "/process.Process/Start"
					if answerType[0] == 't' {
						method, path = "GET", "/files?path=/events"
					}
					request := toApp(method, path, [2]string{"X-Answer", answerType}, [2]string{"Content-Type", answerType},
						[2]string{"Accept-Encoding", "gzip, zstd"})
					request.header[1][1] = port
					got, err := send(request)
					if err != nil {
						t.Fatalf("%s, port %s: %v", answerType, port, err)
					}
					what := answerType + " at port " + port
					want := &seen{status: 200, body: body, end: whole, header: http.Header{"Content-Encoding": nil, "Etag": {`"own"`}}}
					want.compare(t, what, got)
					if vary := strings.Join(got.header["Vary"], ", "); vary != "X-Own" {
						t.Errorf("%s: Vary: %s", what, vary)
					}
				}
			}
		})
	}
}
