package handlers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// Field report M09: a private sandbox is private at every address that leads to it, for
// everything that can be asked of it.
func TestAPrivateSandboxIsPrivateOnEveryPath(t *testing.T) {
	g := newTown(t)
	g.socket(t, func(r *http.Request, c *net.TCPConn, br *bufio.Reader) {
		if r.Header.Get("Upgrade") == "" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nContent-Length: 9\r\n\r\ndata: 1\n\n")
			return
		}
		io.WriteString(c, switched)
		io.Copy(c, br)
	})
	const traffic, access = "E2b-Traffic-Access-Token: ", "X-Access-Token: "
	right := map[string]string{"3000": g.traffic(secluded), "49983": g.token("alice", secluded)}
	others := map[string]string{"3000": g.traffic(mine), "49983": g.token("alice", mine)}
	for port, refusal := range map[string]int{"3000": 403, "49983": 401} {
		for _, place := range []string{"wildcard", "shared", "address"} {
			head := "Host: " + port + "-secluded.box.test\r\n"
			switch ids := "E2b-Sandbox-Id: secluded\r\nE2b-Sandbox-Port: " + port + "\r\n"; place {
			case "shared":
				head = "Host: sandbox.box.test\r\n" + ids
			case "address":
				head = "Host: 10.0.0.8:3002\r\n" + ids
			}
			for kind, more := range map[string]string{
				"HTTP": "", "events": "Accept: text/event-stream\r\n",
				"WebSocket": upgrade + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
			} {
				name := map[string]string{"3000": traffic, "49983": access}[port]
				for with, tc := range map[string]struct {
					token string
					let   bool
				}{
					"none": {"", false}, "bad": {name + "bad\r\n", false}, "good": {name + right[port] + "\r\n", true}, "another's": {name + others[port] + "\r\n", false},
				} {
					want := refusal
					if tc.let && kind == "WebSocket" {
						want = 101
					} else if tc.let {
						want = 200
					}
					before := g.upstreamHits.Load()
					c := g.dial(t)
					fmt.Fprintf(c, "GET /files?path=/x HTTP/1.1\r\n%s%s%s\r\n", head, more, tc.token)
					resp, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil {
						t.Fatal(err)
					}
					if resp.StatusCode != want || (g.upstreamHits.Load() > before) != tc.let {
						t.Errorf("port %s, %s, %s, token %s: %d, want %d", port, place, kind, with, resp.StatusCode, want)
					}
					c.Close()
				}
			}
		}
	}
}
