package handlers

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// manners are how a sandbox may answer, by the connection that a request came on. head
// lacks what frames the body.
var manners = []func(c *net.TCPConn, head, body string){
	func(c *net.TCPConn, head, body string) { // as it should, and then it closes
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	},
	func(c *net.TCPConn, head, body string) { // in chunks
		half := rand.IntN(len(body)-1) + 1
		fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
			head, half, body[:half], len(body)-half, body[half:])
	},
	func(c *net.TCPConn, head, body string) { // one more answer, that nobody asked for
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nX-Call: nobody's\r\nContent-Length: 0\r\n\r\n", head, len(body), body)
		_, _ = io.Copy(io.Discard, c)
	},
	func(c *net.TCPConn, head, body string) { // not to its end
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body[:rand.IntN(len(body))])
	},
	func(c *net.TCPConn, head, body string) { // with a reset in it
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body[:rand.IntN(len(body))])
		_ = c.SetLinger(0)
	},
	func(*net.TCPConn, string, string) {}, // not at all
}

// answersAnyhow is a sandbox that answers each call with its name, many times. Half of
// the time it does so well, and keeps the connection.
func answersAnyhow(t *testing.T, done *sync.Map) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("X-Call")
		if _, twice := done.LoadOrStore(name, true); twice {
			t.Errorf("%s was sent twice", name)
		}
		if b, err := io.ReadAll(r.Body); err == nil && strings.ReplaceAll(string(b), name, "") != "" {
			t.Errorf("%s came with the body of another", name)
		}
		body := strings.Repeat(name, 1+rand.IntN(5000)>>rand.IntN(12))
		if rand.IntN(2) == 0 {
			w.Header().Set("X-Call", name)
			w.Header().Set("X-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body)
			return
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return // its client has left
		}
		defer c.Close()
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Call: %s\r\nX-Length: %d\r\n", name, len(body))
		manners[rand.IntN(len(manners))](c.(*net.TCPConn), head, body)
	}
}

// Connections and memory go from call to call. Nothing else does, whatever sandboxes do
// and whenever clients leave.
func TestNoCallGetsWhatIsAnothers(t *testing.T) {
	g := newRig(t)
	var done sync.Map
	g.proxy = answersAnyhow(t, &done)
	var next, whole atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1); i <= 600; i = next.Add(1) {
				if oneOfMany(t, g, fmt.Sprintf("<call %d>", i)) {
					whole.Add(1)
				}
			}
		})
	}
	all.Wait()
	if whole.Load() < 100 {
		t.Errorf("only %d calls were answered to the end", whole.Load())
	}
}

// oneOfMany makes a call that its client may leave. It reports a whole answer.
func oneOfMany(t *testing.T, g *rig, name string) bool {
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	defer leave()
	if rand.IntN(4) == 0 {
		defer time.AfterFunc(rand.N(60*time.Millisecond), leave).Stop()
	}
	var body io.Reader = strings.NewReader(strings.Repeat(name, rand.IntN(3)*rand.IntN(10_000)))
	if rand.IntN(2) == 0 {
		body = io.MultiReader(body) // of a length that is not told
	}
	r, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/files?path=x", body)
	if err != nil {
		t.Error(err)
		return false
	}
	r.Header = http.Header{"E2b-Sandbox-Id": {"sbx-1"}, "E2b-Sandbox-Port": {"49983"}, "X-Call": {name}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	of := resp.Header.Get("X-Call")
	switch {
	case of == "":
		if resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s: %d %q", name, resp.StatusCode, b)
		}
	case of != name, !strings.HasPrefix(name, strings.ReplaceAll(string(b), name, "")):
		t.Errorf("%s got the answer of %s", name, of)
	case err == nil && resp.Header.Get("X-Length") != fmt.Sprint(len(b)):
		t.Errorf("%s: %d bytes of %s are taken for all", name, len(b), resp.Header.Get("X-Length"))
	}
	return of == name && err == nil
}
