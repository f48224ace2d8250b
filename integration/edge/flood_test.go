package edge

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// Field report I01: an SDK that cancels much, or uploads many small files, is no
// attacker. Whoever is told so with GOAWAY loses every sandbox of its connection.
func TestAClientThatCancelsMuchKeepsItsConnection(t *testing.T) {
	g := open(t, harness.TLS2, "")
	begin := make(chan struct{})
	g.script = func(r *http.Request, c net.Conn) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Query().Get("path") == "/slow" {
			<-begin
		}
		_, err := io.WriteString(c, answer200)
		return err == nil
	}
	c := g.DialH2()
	slow := fields(map[string]string{":path": "/files?path=/slow"})
	for range 1000 {
		c.Reset(c.Fields("", slow...))
	}
	close(begin)
	upload := fields(map[string]string{":method": "POST"})
	for range 100 {
		var ids []uint32
		for range 100 {
			ids = append(ids, c.Fields("a small file", upload...))
		}
		for _, id := range ids {
			if s := c.Wait(id); s.Status != "200" || s.Reset != nil {
				t.Fatalf("%+v, GOAWAY %t, %v", s, c.GoneAway(), c.Closed())
			}
		}
	}
	if c.GoneAway() || c.Closed() != nil {
		t.Errorf("GOAWAY %t, %v", c.GoneAway(), c.Closed())
	}
}

// Field report I03: a connection of HTTP/2 that nobody uses is closed with notice, so
// that no request is lost on it.
func TestAnIdleConnectionIsClosedWithNotice(t *testing.T) {
	u := newUpstream(t, answer200)
	for name, more := range map[string]string{"Caddy's": "", "ours": "\nlistener_wrappers {\ne2b\n}"} {
		t.Run(name, func(t *testing.T) {
			g := &rig{u, inprocess.Start(t, u.caddyfile("timeouts {\nidle 1s\n}"+more), harness.TLS2)}
			c := g.DialH2()
			if s := c.Wait(c.Fields("", fields(nil)...)); s.Status != "200" {
				t.Fatalf("%+v", s)
			}
			c.Until("the end", func() bool { return c.Closed() != nil })
			if !c.GoneAway() {
				t.Error("it ended without GOAWAY")
			}
		})
	}
}

// Field report H06: a client may leave a download alone while it makes other calls on
// the same connection, and the sandbox's other answers may share one, too.
func TestADownloadThatNobodyReadsStopsNothingElse(t *testing.T) {
	g := open(t, harness.TLS2, "")
	g.script = func(r *http.Request, c net.Conn) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Query().Get("path") != "/large" {
			_, err := io.WriteString(c, answer200)
			return err == nil
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 1<<30)
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return false
			}
		}
	}
	dials := 0
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: g.TLS(), DialContext: dial, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	get := func(path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), "GET", g.URL+"/files?path="+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = routed()
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	large := get("/large")
	defer large.Body.Close()
	if _, err := io.ReadFull(large.Body, make([]byte, 1<<20)); err != nil { // it is under way
		t.Fatal(err)
	}
	<-time.After(500 * time.Millisecond) // until all windows are full
	begun := time.Now()
	for range 50 {
		resp := get("/x")
		if b, err := io.ReadAll(resp.Body); string(b) != "{}" || err != nil {
			t.Fatalf("%d %q, %v", resp.StatusCode, b, err)
		}
		resp.Body.Close()
	}
	if took := time.Since(begun); took > 10*time.Second || dials != 1 || large.ProtoMajor != 2 {
		t.Errorf("50 calls took %v, on %d connections of %s", took, dials, large.Proto)
	}
}

// Field report H08: requests to many sandboxes, however they end, leave nothing but a
// bounded number of idle connections.
func TestManyRequestsToManySandboxesLeaveNothing(t *testing.T) {
	const sandboxes, workers = 500, 100
	u := newUpstream(t, "")
	_, port, _ := strings.Cut(u.address, ":")
	var more strings.Builder
	for i := range sandboxes {
		fmt.Fprintf(&more, "sandbox s%d {\nhost 127.0.0.1\nport 49983 %s\n}\n", i, port)
	}
	config := strings.Replace(u.direct("127.0.0.1", "allow 127.0.0.0/8"), "registry static {", "registry static {\n"+more.String(), 1)
	g := &rig{u, inprocess.Start(t, config)}
	long := strings.Repeat("x", 300<<10)
	g.script = func(r *http.Request, c net.Conn) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		answer, goesOn := answer200, true
		switch r.URL.Query().Get("path") {
		case "/0":
			answer = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\n" +
				"Content-Length: 307200\r\n\r\n" + long
		case "/1":
			answer = "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n" +
				"Transfer-Encoding: chunked\r\n\r\n4\r\nnull\r\n0\r\n\r\n"
		case "/2":
			answer, goesOn = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut", false
		case "/3":
			answer, goesOn = "", false
		case "/4":
			answer, goesOn = "no HTTP at all\r\n\r\n", false
		}
		_, err := io.WriteString(c, answer)
		return err == nil && goesOn
	}
	client := g.Client()
	round := func() {
		var all sync.WaitGroup
		for worker := range workers {
			all.Go(func() {
				for n := range 6 * sandboxes / workers {
					// What is lost is looked into for a second, so that each loses one.
					fault := 5
					if n == 0 {
						fault = worker % 6
					}
					i := (worker + n*workers) % sandboxes
					r, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("%s/files?path=/%d", g.URL, fault), nil)
					if err != nil {
						t.Error(err)
						return
					}
					r.Header = http.Header{"E2b-Sandbox-Id": {fmt.Sprint("s", i)}, "E2b-Sandbox-Port": {"49983"}}
					if resp, err := client.Do(r); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
			})
		}
		all.Wait()
		client.CloseIdleConnections()
		g.take()
	}
	before := runtime.NumGoroutine()
	round()
	round()
	// What has just ended may be counted for a moment. A connection that is kept for a
	// sandbox has a goroutine at the upstream.
	limit := time.Now().Add(patience)
	for {
		connections, goroutines := int(g.open.Load()), runtime.NumGoroutine()-before
		if connections <= sandboxes && goroutines-connections <= 10 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("%d connections and %d goroutines are left", connections, goroutines)
		}
		<-time.After(50 * time.Millisecond)
	}
}
