package rock

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a cluster with one address per role and a client without keep-alive surprises.
type rig struct {
	*testing.T
	c            *Cluster
	admin, proxy *Server
	client       *http.Client
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	o.TempDir = t.TempDir()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{T: t, c: c, client: &http.Client{Transport: &http.Transport{DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if g.admin, err = c.Serve(Admin, ""); err != nil {
		t.Fatal(err)
	}
	if g.proxy, err = c.Serve(Proxy, ""); err != nil {
		t.Fatal(err)
	}
	return g
}

type reply struct {
	status int
	header http.Header
	body   string
}

// do sends one request; headers come in pairs.
func (g *rig) do(method, url, body string, headers ...string) reply {
	g.Helper()
	resp := g.open(method, url, body, headers...)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.Fatalf("%s %s: %v", method, url, err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (g *rig) open(method, url, body string, headers ...string) *http.Response {
	g.Helper()
	req, err := http.NewRequestWithContext(g.Context(), method, url, strings.NewReader(body))
	if err != nil {
		g.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		g.Fatal(err)
	}
	return resp
}

func (r reply) want(t testing.TB, status int, body string) {
	t.Helper()
	if r.status != status || r.body != body {
		t.Fatalf("got %d %s\nwant %d %s", r.status, r.body, status, body)
	}
}

func (r reply) json(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
}

// create makes a sandbox whose id is id.
func (g *rig) create(id string) *Sandbox {
	g.Helper()
	r := g.do("POST", g.admin.URL()+"/sandboxes",
		`{"templateID":"python:3.11","timeout":300,"metadata":{"ap-sandbox-id":"`+id+`","team":"a b"},"envVars":{"FROM":"create"}}`, "X-API-Key", "e2b_k")
	if r.status != http.StatusCreated {
		g.Fatalf("create: %d %s", r.status, r.body)
	}
	return g.c.Sandbox(id)
}

// frames splits a Connect stream into flag and payload.
func frames(t testing.TB, body string) []string {
	t.Helper()
	var out []string
	for b := []byte(body); len(b) > 0; {
		if len(b) < 5 || len(b) < 5+int(binary.BigEndian.Uint32(b[1:5])) {
			t.Fatalf("cut envelope in %q", body)
		}
		n := 5 + int(binary.BigEndian.Uint32(b[1:5]))
		out = append(out, string('0'+rune(b[0]))+" "+string(b[5:n]))
		b = b[n:]
	}
	return out
}

func command(script string) string {
	b, _ := json.Marshal(map[string]any{"process": map[string]any{"cmd": "/bin/bash", "args": []string{"-l", "-c", script}}})
	return string(envelope(0, b))
}

// start runs a raw Start request; headers override the usual ones.
func (g *rig) start(id, body string, headers ...string) reply {
	g.Helper()
	return g.do("POST", g.proxy.URL()+"/process.Process/Start", body, append([]string{
		"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1", "Connect-Timeout-Ms", "20000", sandboxHeader, id,
	}, headers...)...)
}

func (g *rig) rpc(id, method, body string) reply {
	g.Helper()
	return g.do("POST", g.proxy.URL()+"/filesystem.Filesystem/"+method, body, "Content-Type", "application/json", sandboxHeader, id)
}

// clock is a settable Options.Now.
type clock struct{ ch chan time.Time }

func newClock(t time.Time) *clock {
	c := &clock{make(chan time.Time, 1)}
	c.ch <- t
	return c
}

func (c *clock) now() time.Time {
	t := <-c.ch
	c.ch <- t
	return t
}

func (c *clock) add(d time.Duration) {
	t := <-c.ch
	c.ch <- t.Add(d)
}

// until polls a foreign condition with a deadline.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func (g *rig) record(key string) map[string]any {
	g.Helper()
	b, ok := g.c.Records().(*MemoryRecords).Get(key)
	if !ok {
		return nil
	}
	var m map[string]any
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&m); err != nil {
		g.Fatal(err)
	}
	return m
}
