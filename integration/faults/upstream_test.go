package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// record is what the admin role says about a sandbox.
type record string

const (
	running record = "running"
	paused  record = "paused"
	gone    record = "gone"
	// again: running, in another life than before.
	again record = "again"
)

// play answers one request of a sandbox, to the byte. It may do to the
// connection what it likes; when it returns true the connection goes on.
type play func(c *net.TCPConn) (goOn bool)

// cluster is a ROCK deployment whose proxy role plays what each sandbox was
// given, and whose admin role says what the play has made of the sandbox.
type cluster struct {
	t            *testing.T
	admin, proxy string // base URLs
	mu           sync.Mutex
	plays        map[string]play
	records      map[string]record
	waiting      map[string]chan struct{} // closed when a play has gone silent
	closed       map[string]chan struct{} // closed when the gateway has left
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	k := &cluster{
		t: t, plays: map[string]play{}, records: map[string]record{},
		waiting: map[string]chan struct{}{}, closed: map[string]chan struct{}{},
	}
	k.admin = k.listen(k.serveAdmin)
	k.proxy = k.listen(k.serveProxy)
	return k
}

// add brings a sandbox into being.
func (k *cluster) add(id string, p play) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plays[id], k.records[id] = p, running
	k.waiting[id], k.closed[id] = make(chan struct{}), make(chan struct{})
}

func (k *cluster) say(id string, r record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records[id] = r
}

// silence is a play's last word: it tells that the sandbox is silent from now
// on, and waits until the gateway leaves.
func (k *cluster) silence(id string, c net.Conn) {
	k.mu.Lock()
	waiting, closed := k.waiting[id], k.closed[id]
	k.mu.Unlock()
	close(waiting)
	_, _ = io.Copy(io.Discard, c)
	close(closed)
}

// silent is closed when the sandbox has fallen silent, left when the gateway
// has closed its connection after that.
func (k *cluster) silent(id string) (silent, left <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting[id], k.closed[id]
}

// kill kills a sandbox through the gateway.
func (k *cluster) kill(t *testing.T, e *harness.Endpoint, id string) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, e.URL+"/sandboxes/"+id, http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := e.Client().Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("kill: %d", resp.StatusCode)
	}
}

func (k *cluster) listen(serve func(*net.TCPConn)) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.t.Fatal(err)
	}
	var conns sync.WaitGroup
	k.t.Cleanup(func() { l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	return "http://" + l.Addr().String()
}

// answerer answers a request that has been read to its end, and says whether the
// connection goes on.
type answerer func(c *net.TCPConn, r *http.Request) (goOn bool)

// converse has the requests of a connection to a sandbox answered. A live one's /health
// always answers, so that a connection can be seen to go on.
func converse(c *net.TCPConn, serve answerer) {
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path == "/health" {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			continue
		}
		if !serve(c, r) {
			return
		}
	}
}

// serveProxy is the data plane.
func (k *cluster) serveProxy(c *net.TCPConn) {
	converse(c, func(c *net.TCPConn, r *http.Request) bool {
		k.mu.Lock()
		p := k.plays[r.Header.Get("E2b-Sandbox-Id")]
		k.mu.Unlock()
		return p != nil && p(c)
	})
}

func (k *cluster) serveAdmin(c *net.TCPConn) {
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		id := strings.TrimPrefix(r.URL.Path, "/sandboxes/")
		k.mu.Lock()
		if r.Method == http.MethodDelete {
			k.records[id] = gone
		}
		now := k.records[id]
		k.mu.Unlock()
		switch {
		case r.Method == http.MethodDelete:
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		case now == running || now == paused:
			answer(c, 200, fmt.Sprintf(`{"sandboxID":%q,"state":%q,"startedAt":"2026-01-01T00:00:00Z"}`, id, now))
		case now == again:
			answer(c, 200, fmt.Sprintf(`{"sandboxID":%q,"state":"running","startedAt":"2026-02-02T00:00:00Z"}`, id))
		default:
			answer(c, 404, `{"code":404,"message":"not found"}`)
		}
	}
}

func answer(w io.Writer, status int, body string) {
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(body), body)
}
