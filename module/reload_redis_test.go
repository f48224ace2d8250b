package module_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
)

// Field report N03: in a loop of reloads, with the same Redis and with another
// configuration of it, no request meets a client that is closed.
func TestReloadsUnderLoadLoseNoLookup(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	for i := range 200 {
		redis.Do("SET", fmt.Sprint("alive:s", i), fmt.Sprintf(`{"sandbox_id":"s%d","state":"running"}`, i))
	}
	rock := newRock(t, noContent)
	config := func(i int) string {
		registry := fmt.Sprintf("registry redis {\naddress %s\ntimeout %dms\n}\ncache {\nttl 100ms\n}", redis.Addr, 5000+i/2)
		return strings.Replace(wrapped(rock, "e2b", fmt.Sprint(i)), staticSandbox, registry, 1)
	}
	g := inprocess.Start(t, config(0))
	url := g.URL
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 8 {
		client := g.Client()
		call := func() bool {
			resp, err := client.Do(ask(t.Context(), url, fmt.Sprint("s", rand.N(200)), "/health"))
			if err != nil {
				t.Error(err)
				return false
			}
			defer resp.Body.Close()
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNoContent {
				t.Errorf("%d %s", resp.StatusCode, body)
				return false
			}
			return true
		}
		call() // on a connection that has been accepted: README, "Reloads"
		load.Go(func() {
			for call() {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 30 {
		g.Reload(config(i + 1))
	}
	close(stop)
	load.Wait()
	if asked := redis.Calls("get"); asked < 30 {
		t.Errorf("%d lookups: what was reloaded was not used", asked)
	}
}

// Field report N04: a reload that fails in somebody else's part leaves no second client
// of Redis behind, and no second worker.
func TestAReloadThatFailsLeavesNoClientOfRedis(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Do("SET", "alive:s", `{"sandbox_id":"s","state":"running"}`)
	rock := newRock(t, noContent)
	config := func(i int) string {
		registry := fmt.Sprintf("registry redis {\naddress %s\ntimeout %dms\n}", redis.Addr, 5000+i)
		return strings.Replace(wrapped(rock, "e2b", "one"), staticSandbox, registry, 1)
	}
	g := inprocess.Start(t, config(0))
	if code := health(t, g, "s"); code != http.StatusNoContent {
		t.Fatalf("status %d", code)
	}
	connections, goroutines := redis.Connections(), 0
	for i := range 20 {
		if err := g.TryReload(strings.Replace(config(i+1), "{", "{\ntest_fails", 1)); err == nil {
			t.Fatal("the reload did not fail")
		}
		if i == 0 {
			goroutines = runtime.NumGoroutine()
		}
	}
	if code := health(t, g, "s"); code != http.StatusNoContent {
		t.Errorf("status %d", code)
	}
	waitFor(t, "the clients to end", func() bool {
		return redis.Connections() <= connections+1 && runtime.NumGoroutine() <= goroutines+8
	})
}

// Field report N02: streams that do not end hold no reload up, also without the wrapper,
// and no grace period of a config that was replaced ends them: only an exit does.
func TestAReloadEndsWhateverStreamsAreOpen(t *testing.T) {
	for name, grace := range map[string]string{"no grace period": "", "a grace period": "grace_period 500ms"} {
		t.Run(name, func(t *testing.T) {
			finish := make(chan struct{})
			rock := newRock(t, slowRock(finish))
			config := func(version string) string {
				return "{\n" + grace + clusterOf(rock, staticSandbox) + "}\n:8080 {\nrespond /version \"" + version + "\"\ne2b\n}\n"
			}
			g := inprocess.Start(t, config("one"), harness.TLS2)
			c := g.DialH2()
			var streams []uint32
			for range 20 {
				streams = append(streams, startStream(c))
			}
			for _, s := range streams {
				begun(c, s)
			}
			began := time.Now()
			g.Reload(config("two"))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the reload took %v", took)
			}
			if got := versionH2(g.DialH2()); got != "two" {
				t.Errorf("a new connection gets %q", got)
			}
			<-time.After(time.Second)
			close(finish)
			for _, id := range streams {
				if s := c.Wait(id); s.Body != whole || !s.Ended || s.Reset != nil {
					t.Errorf("the stream ended as %+v", s)
				}
			}
		})
	}
}
