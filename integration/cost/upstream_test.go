package cost

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

const (
	// question is the body of a call, answer that of its answer: a small unary RPC.
	question = `{"process":{"pid":17}}`
	answer   = `{"processes":[{"config":{"cmd":"/bin/sh","args":["-c","true"]},"pid":17}]}`
)

// serveRaw is a sandbox that answers every request in one way and allocates
// nothing for it. A request's head and body must come in at most 4 KiB.
func serveRaw(t testing.TB) (address string) {
	t.Helper()
	return loopback.Serve(t, answerRaw)
}

func answerRaw(c net.Conn) {
	defer c.Close()
	out := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Tue, 01 Dec 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s",
		len(answer), answer)
	end := []byte("\r\n\r\n" + question)
	in, n := make([]byte, 4<<10), 0
	for {
		some, err := c.Read(in[n:])
		if err != nil {
			return
		}
		if n += some; !bytes.HasSuffix(in[:n], end) {
			continue
		}
		n = 0
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
