package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/caddy-e2b/gateway/auth"
)

// connections is how many clients there are at a time.
const connections = 16

const (
	callPath = "/filesystem.Filesystem/Stat"
	callBody = `{"path":"/home/user/a.txt"}`
	// floorPath is where a site like the gateway's answers by `respond`.
	floorPath = "/respond"
)

// pathOf is where a contestant is called.
func pathOf(c *contestant, path string) string {
	if c.kind == respond {
		return floorPath
	}
	return path
}

// header is a name and a value.
type header struct{ name, value string }

// headersOf are the headers that Python's SDK sends with a call, apart from
// those that belong to the protocol's version. load is for the upstream.
func headersOf(sandboxID, contentType, load string) []header {
	all := []header{
		{"Accept", "*/*"}, {"Accept-Encoding", "gzip, deflate"}, {"User-Agent", "connect-python/0.6.0 (CPython/3.11)"},
		{"Connect-Protocol-Version", "1"}, {"Content-Type", contentType}, {"Authorization", "Basic dXNlcjo="},
		{"X-Access-Token", tokens.Mint(auth.AccessToken, sandboxID, subject)},
		{"E2b-Sandbox-Id", sandboxID}, {"E2b-Sandbox-Port", "49983"},
	}
	if load != "" {
		all = append(all, header{loadHeader, load})
	}
	return all
}

// requestH1 is a request as bytes. length is that of the body, of which part or
// nothing is given here.
func requestH1(c *contestant, method, path string, headers []header, length int, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, c.address)
	for _, h := range headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h.name, h.value)
	}
	if method != "GET" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", length)
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// callH1 is a unary call.
func callH1(c *contestant, sandboxID string) []byte {
	return requestH1(c, "POST", pathOf(c, callPath), headersOf(sandboxID, "application/json", ""), len(callBody), callBody)
}

// client is a connection that sends one request after the other.
type client struct {
	net.Conn
	in      reader
	request []byte
}

// dialH1 is a caller over HTTP/1.1.
func dialH1(c *contestant, sandboxID string) (caller, func(), error) {
	k, err := connectH1(c)
	if err != nil {
		return nil, nil, err
	}
	k.request = callH1(c, sandboxID)
	return k, func() { k.Close() }, nil
}

func connectH1(c *contestant) (*client, error) {
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		return nil, err
	}
	return &client{Conn: conn, in: reader{conn: conn, buf: make([]byte, 4<<10)}}, nil
}

// connectFor opens a connection for each sandbox, ready to call it.
func (s *scene) connectFor(c *contestant, sandboxIDs []string) []*client {
	s.Helper()
	all := make([]*client, len(sandboxIDs))
	for i, id := range sandboxIDs {
		k, err := connectH1(c)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { k.Close() })
		k.request = callH1(c, id)
		all[i] = k
	}
	return all
}

func (c *client) callUntil(over *atomic.Bool) (calls int, err error) {
	for !over.Load() {
		if err := c.call(); err != nil {
			return calls, err
		}
		calls++
	}
	return calls, nil
}

var errOtherAnswer = errors.New("another answer than the upstream's")

// call sends the request and checks the answer.
func (c *client) call() error {
	if _, err := c.send(); err != nil {
		return err
	}
	body, err := c.in.body(len(answer))
	if err != nil {
		return err
	}
	if !bytes.Equal(body, answer) || c.in.begin != c.in.end {
		return errOtherAnswer
	}
	return nil
}

// send sends the request and returns the head of the answer, which is a 200.
func (c *client) send() (head []byte, err error) {
	if _, err := c.Write(c.request); err != nil {
		return nil, err
	}
	if head, err = c.in.head(); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return nil, fmt.Errorf("the answer is %q", strings.TrimSpace(string(head)))
	}
	return head, nil
}
