package faults

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n"

// wsOpen sends a handshake, with a frame right behind it.
func wsOpen(t *testing.T, e *harness.Endpoint, sandbox string) (net.Conn, *bufio.Reader) {
	t.Helper()
	var config *tls.Config
	if e.CAFile != "" {
		config = e.TLS()
		config.NextProtos = []string{"http/1.1"} // as browsers do for wss
	}
	_, address, _ := strings.Cut(e.URL, "://")
	c, err := dial(address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET /files?path=/socket HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n\x81\x83abcd123", sandbox)
	br := bufio.NewReader(c)
	s := &seen{}
	if err := s.readHeadOf(br, http.StatusSwitchingProtocols); err != nil {
		t.Fatal(err)
	}
	if s.status != http.StatusSwitchingProtocols || s.header.Get("Sec-Websocket-Accept") != "x" || s.header.Get("Upgrade") != "websocket" {
		t.Fatalf("%d %v", s.status, s.header)
	}
	return c, br
}

// Contract checklist 13, for every transport, and with what an access log and a
// listener that outlives configs put around a connection.
func TestWebSocketsThroughTheWholeGateway(t *testing.T) {
	for _, transport := range harness.Transports {
		for name, with := range map[string]lines{
			"":                     {},
			", with an access log": {site: "log"},
			", behind a listener":  {global: "servers {\nlistener_wrappers {\ne2b\n}\n}"},
		} {
			t.Run(string(transport)+name, func(t *testing.T) {
				k, g := openWith(t, transport, with)
				frame := "\x82\x7e\x04\x00" + strings.Repeat("x", 1024)
				k.add("ws", func(c *net.TCPConn) bool {
					_, _ = io.WriteString(c, switched+frame)
					got := make([]byte, 9)
					if _, err := io.ReadFull(c, got); err != nil || string(got) != "\x81\x83abcd123" {
						t.Errorf("%q, %v", got, err)
					}
					k.silence("ws", c)
					return false
				})
				c, br := wsOpen(t, &g.Endpoint, "ws")
				got := make([]byte, len(frame))
				if _, err := io.ReadFull(br, got); err != nil || string(got) != frame {
					t.Fatalf("%q, %v", got, err)
				}
				silent, left := k.silent("ws")
				<-silent
				k.kill(t, &g.Endpoint, "ws")
				head := make([]byte, 4)
				if _, err := io.ReadFull(br, head); err != nil || head[0] != 0x88 || binary.BigEndian.Uint16(head[2:]) != 1011 {
					t.Fatalf("%q, %v", head, err)
				}
				reason := make([]byte, head[1]-2)
				if _, err := io.ReadFull(br, reason); err != nil || string(reason) != text("gone", "ws") {
					t.Errorf("%q, %v", reason, err)
				}
				// The client says goodbye too, and the server closes, in an
				// orderly way and at once.
				begun := time.Now()
				_, _ = io.WriteString(c, "\x88\x82abcd\x62\x8a")
				if rest, err := io.ReadAll(br); len(rest) != 0 || err != nil {
					t.Errorf("%q, %v", rest, err)
				}
				if d := time.Since(begun); d > time.Second {
					t.Errorf("closed after %v", d)
				}
				select {
				case <-left:
				case <-time.After(patience):
					t.Error("the gateway keeps its connection to the sandbox")
				}
			})
		}
	}
}
