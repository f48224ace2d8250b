package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// gateway is one process of the real binary.
type gateway struct {
	*harness.Process
	url       string
	caddyfile string
	number    int
	idle      footprint // when it has nothing to do
}

// footprint is what a process holds.
type footprint struct{ files, goroutines int }

// What a gateway may hold beyond what it held when it was new: connections to Redis that it keeps (pool_size for each server, and those
// that it listens on), to ROCK for as long as idle_timeout, and Go's own.
const slackFiles, slackGoroutines = 24, 40

// exceeds reports a footprint that is more than another and the slack.
func (f footprint) exceeds(idle footprint) bool {
	return f.files > idle.files+slackFiles || f.goroutines > idle.goroutines+slackGoroutines
}

// footprint asks the process and the kernel.
func (g *gateway) footprint() (f footprint, err error) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.PID()))
	if err != nil {
		return f, err
	}
	f.files = len(fds)
	b, err := g.admin(http.MethodGet, "/debug/pprof/goroutine?debug=1", nil)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "goroutine profile: total %d", &f.goroutines)
	}
	return f, err
}

// admin asks Caddy's admin endpoint, on a connection of its own.
func (g *gateway) admin(method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, g.AdminURL()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Cache-Control", "must-revalidate") // load it also if it is the same
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s %s", method, path, resp.Status, b)
	}
	return b, err
}

// client is one of its own, that trusts the gateway.
func (g *gateway) client() *http.Client {
	tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(g.Transport != harness.TLS2)
	tr.Protocols.SetHTTP2(g.Transport == harness.TLS2)
	if g.CAFile != "" {
		tr.TLSClientConfig = g.TLS()
	}
	return &http.Client{Transport: tr}
}

// reload loads the config that runs once more.
func (g *gateway) reload() error {
	config, err := g.admin(http.MethodGet, "/config/", nil)
	if err == nil {
		_, err = g.admin(http.MethodPost, "/load", config)
	}
	return err
}

// end waits for the end of a process that was signalled.
func (g *gateway) end(t testing.TB, s os.Signal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := g.Wait(ctx)
	if ctx.Err() != nil {
		t.Fatalf("gateway %d does not end", g.number)
	}
	if s == syscall.SIGTERM && err != nil {
		t.Errorf("gateway %d ended with %v:\n%s", g.number, err, tail(g.Logs()))
	}
}

// alive fails the test when the process has ended by itself.
func (g *gateway) alive(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := g.Wait(ctx); err != context.Canceled {
		t.Fatalf("gateway %d has ended by itself: %v\n%s", g.number, err, tail(g.Logs()))
	}
}

func tail(log string) string { return log[max(0, len(log)-6<<10):] }

func portOf(address string) string {
	_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		panic(err)
	}
	return port
}

// within polls what a foreign process does, and reports whether it came true.
func within(limit time.Duration, holds func() bool) bool {
	for begun := time.Now(); ; <-time.After(20 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Since(begun) > limit {
			return false
		}
	}
}
