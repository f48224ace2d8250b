package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is what the gateway's process holds at a time, and what it has done until then.
type sample struct {
	at    time.Duration // since the load began
	calls int
	of    map[measure]int
}

// measure is one of the numbers of a sample.
type measure string

const (
	resident measure = "resident memory, KiB"
	// goal is up to where the collector lets the heap grow: what lived when it last looked, and headroom.
	goal measure = "heap goal, KiB"
	// heap is what lives and what has not been collected yet.
	heap       measure = "heap, KiB"
	goroutines measure = "goroutines"
	files      measure = "open files"
	sockets    measure = "sockets"
	toRedis    measure = "connections to Redis"
	// inUse are the sockets without those that are kept for a later call.
	inUse measure = "sockets in use"
)

// measures are all of them, with how much the median of the last third may be above that of the first: so many in a hundred, and so many
// more. In half an hour at 200 calls a second, a leak of 100 bytes in every call would come to more than what the goal may grow by, and one call in 5,000
// that leaves a goroutine or a socket to more than what those may. The heap says more about when the last collection was, and how many
// connections are kept for a later call follows the load: they are shown and not judged.
var measures = []struct {
	measure
	percent, more int
	judged        bool
}{
	{resident, 5, 8 << 10, true},
	{goal, 5, 4 << 10, true},
	{heap, 0, 0, false},
	{goroutines, 5, 20, true},
	{inUse, 5, 20, true},
	{files, 0, 0, false},
	{sockets, 0, 0, false},
	{toRedis, 0, 0, false},
}

// take measures the gateway from the outside where that is possible.
func (s *stage) take() map[measure]int {
	of := map[measure]int{resident: residentOf(s, s.gateway.PID())}
	var vars struct {
		MemStats struct{ NextGC, HeapAlloc int } `json:"memstats"`
	}
	if err := json.Unmarshal(s.ask("/debug/vars"), &vars); err != nil {
		s.Error(err)
	}
	of[goal], of[heap] = vars.MemStats.NextGC>>10, vars.MemStats.HeapAlloc>>10
	n := 0
	if _, err := fmt.Sscanf(string(s.ask("/debug/pprof/goroutine?debug=1")), "goroutine profile: total %d", &n); err != nil {
		s.Error(err)
	}
	of[goroutines] = n
	own := s.ownSockets(of)
	of[sockets], of[toRedis] = len(own), s.connectionsToRedis(own)
	of[inUse] = of[sockets] - of[toRedis] - s.metric("e2b_gateway_upstream_connections_idle")
	return of
}

// ownSockets are the inodes of the gateway's sockets. All its open files are counted.
func (s *stage) ownSockets(of map[measure]int) map[string]bool {
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.gateway.PID()))
	if err != nil {
		s.Error(err)
	}
	of[files] = len(open)
	own := map[string]bool{}
	for _, f := range open {
		if to, err := os.Readlink(f); err == nil && strings.HasPrefix(to, "socket:") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	return own
}

// connectionsToRedis counts those of the gateway that are open.
func (s *stage) connectionsToRedis(own map[string]bool) (n int) {
	const established = "01" // TCP_ESTABLISHED
	_, port, _ := strings.Cut(s.registry.Addr, ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		s.Error(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		s.Error(err)
	}
	remote := fmt.Sprintf(":%04X", number)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && strings.HasSuffix(f[2], remote) && f[3] == established && own[f[9]] {
			n++
		}
	}
	return n
}

// metric is what the gateway itself says.
func (s *stage) metric(name string) (value int) {
	_, rest, _ := strings.Cut(string(s.ask("/metrics")), "\n"+name+" ")
	if _, err := fmt.Sscan(rest, &value); err != nil {
		s.Errorf("%s: %v", name, err)
	}
	return value
}

func residentOf(s *stage, pid int) (kib int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		s.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		s.Fatal(err)
	}
	return kib
}

// ask reads from the admin endpoint.
func (s *stage) ask(path string) []byte {
	resp, err := http.Get(s.gateway.AdminURL() + path)
	if err != nil {
		s.Error(err)
		return nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Error(err)
	}
	return b
}

// watch takes samples at this pace until ctx ends.
func (s *stage) watch(ctx context.Context, t *tally, every time.Duration) (all []sample) {
	begun := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			all = append(all, sample{time.Since(begun), t.sum().calls(), s.take()})
		case <-ctx.Done():
			return all
		}
	}
}

// growth is a measure at the beginning and at the end.
type growth struct {
	measure
	first, last, bound int
}

func (g growth) flat() bool { return g.last <= g.bound }

// growths compares the medians of the first and of the last third of the samples.
func growths(all []sample) (grown []growth) {
	third := len(all) / 3
	for _, m := range measures {
		if !m.judged {
			continue
		}
		g := growth{measure: m.measure, first: median(all[:third], m.measure), last: median(all[len(all)-third:], m.measure)}
		g.bound = g.first + g.first*m.percent/100 + m.more
		grown = append(grown, g)
	}
	return grown
}

func median(samples []sample, of measure) int {
	var values []int
	for _, s := range samples {
		values = append(values, s.of[of])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// rest measures the gateway without a call, once it has let go of what it keeps for a while. It collects its garbage first.
func (s *stage) rest(done func(map[measure]int) bool, patience time.Duration) map[measure]int {
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
	limit := time.After(patience)
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for {
		for range 2 { // what is in pools goes at the second collection
			s.ask("/debug/pprof/heap?gc=1")
		}
		now := s.take()
		if done(now) {
			return now
		}
		select {
		case <-poll.C:
		case <-limit:
			return now
		}
	}
}
