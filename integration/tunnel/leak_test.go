package tunnel

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// held is what a gateway's process holds.
type held struct{ goroutines, sockets int }

// connections are the ends of a process's sockets, as the kernel writes them (proc(5)), for who has to find out which is one too many.
func connections(t testing.TB, g *harness.Process) string {
	t.Helper()
	own := map[string]bool{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", g.PID()))
	for _, f := range files {
		to, _ := os.Readlink(f)
		own[strings.Trim(strings.TrimPrefix(to, "socket:"), "[]")] = true
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Error(err)
	}
	var ends strings.Builder
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && own[f[9]] {
			fmt.Fprintf(&ends, "%s to %s (%s)\n", f[1], f[2], f[3])
		}
	}
	return ends.String()
}

func take(t testing.TB, g *harness.Process) (h held) {
	t.Helper()
	resp, err := http.Get(g.AdminURL() + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := fmt.Fscanf(resp.Body, "goroutine profile: total %d", &h.goroutines); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", g.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && strings.HasPrefix(to, "socket:") {
			h.sockets++
		}
	}
	return h
}

// Field report H08.
func TestNothingIsLeftOfPortForwards(t *testing.T) {
	s := build(t, "")
	// One connection for lookups, or how many there are depends on how many were ever made at once.
	config := strings.Replace(s.config, "redis {", "redis {\npool_size 1", 1)
	g := harness.Binary(t, strings.Replace(config, "keys off", "keys off\nidle_timeout 1s", 1))
	box := s.create(t, "a")
	serveSockets(t, box, hidden, echo)
	serve(t, box, hidden+1, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	})
	client := g.Client()
	all := func() {
		talkAll(t, &g.Endpoint, hidden)
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				for port, want := range map[int]int{hidden + 1: 200, hidden + 2: 502} { // nothing listens on the second
					resp, err := client.Do(request(t, http.MethodPost, g.URL, "a", port, strings.NewReader(strings.Repeat("x", 100<<10))))
					if err != nil {
						t.Error(err)
						return
					}
					if n, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want || want == 200 && n != 100<<10 {
						t.Errorf("port %d: %d, %d bytes, %v", port, resp.StatusCode, n, err)
					}
					resp.Body.Close()
				}
			})
		}
		calls.Wait()
		client.CloseIdleConnections()
	}
	rest := func() held {
		eventually(t, "all port-forwards have ended", func() bool { return box.Forwards() == 0 })
		return take(t, g)
	}
	all() // so that it has what it keeps whatever comes
	before := rest()
	all()
	var after held
	defer func() { t.Logf("%+v before, %+v after\n%s", before, after, connections(t, g)) }()
	eventually(t, "the gateway holds no more than before", func() bool {
		after = rest()
		return after.goroutines <= before.goroutines && after.sockets <= before.sockets
	})
}
