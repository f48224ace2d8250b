package edge

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// upstream is ROCK, both roles, and a sandbox: a server that keeps every byte it
// is sent, and answers each request with the same.
type upstream struct {
	address string
	// script, if not nil, answers in the place of answer, and says whether the
	// connection goes on.
	script func(r *http.Request, c net.Conn) bool
	open   atomic.Int32 // connections
	// forgetful, it keeps nothing.
	forgetful bool

	listener net.Listener
	conns    sync.WaitGroup

	mu     sync.Mutex
	answer string // to the byte
	got    bytes.Buffer
}

// answers has requests answered with this from now on.
func (u *upstream) answers(answer string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer = answer
}

const answer200 = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

func newUpstream(t *testing.T, answer string) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{address: l.Addr().String(), answer: answer, listener: l}
	t.Cleanup(func() { l.Close(); u.conns.Wait() })
	u.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.conns.Go(func() {
				u.open.Add(1)
				defer u.open.Add(-1)
				defer c.Close()
				u.serve(c)
			})
		}
	})
	return u
}

func (u *upstream) serve(c net.Conn) {
	br := bufio.NewReader(io.TeeReader(c, u))
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if u.script != nil {
			if !u.script(r, c) {
				return
			}
			continue
		}
		_, _ = io.Copy(io.Discard, r.Body)
		u.mu.Lock()
		answer := u.answer
		u.mu.Unlock()
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
		if strings.HasPrefix(answer, "HTTP/1.1 101") {
			_, _ = io.Copy(io.Discard, br) // kept, too
			return
		}
	}
}

// Write implements io.Writer.
func (u *upstream) Write(p []byte) (int, error) {
	if u.forgetful {
		return len(p), nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.got.Write(p)
}

// take is what has come since the last time, to the byte.
func (u *upstream) take() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer u.got.Reset()
	return u.got.String()
}

// rest is take for the last time, when nothing can come any more. The gateway
// must have been stopped.
func (u *upstream) rest() string {
	u.listener.Close()
	u.conns.Wait()
	return u.take()
}

// caddyfile is a gateway in front of the upstream that knows the sandboxes a
// and b. Everybody gets in, so that nothing but the rule that is tested can
// refuse a request. servers are options of Caddy's servers.
func (u *upstream) caddyfile(servers string) string {
	return fmt.Sprintf(`{
	servers {
		%[2]s
	}
	e2b {
		keys off
		cluster default {
			admin http://%[1]s
			proxy http://%[1]s
		}
		registry static {
			sandbox a {
				host 127.0.0.1
			}
			sandbox b {
				host 127.0.0.1
			}
		}
	}
}
:8080 {
	e2b
}
`, u.address, servers)
}

// rig is a gateway in front of an upstream.
type rig struct {
	*upstream
	*harness.Gateway
}

func open(t *testing.T, transport harness.Transport, answer string) *rig {
	t.Helper()
	u := newUpstream(t, answer)
	return &rig{u, inprocess.Start(t, u.caddyfile(""), transport)}
}
