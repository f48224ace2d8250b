package cost

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// process is the real binary with a sandbox behind it, and a connection to the
// gateway and to the floor.
type process struct {
	*harness.Process
	*scene
	floor, gateway *client
	request        []byte
}

func startProcess(t testing.TB, site, options string) *process {
	t.Helper()
	p := &process{scene: setUp(t, site, options)}
	p.Process = harness.Binary(t, p.caddyfile)
	p.request = request(create(t, p.Client(), p.URL))
	p.floor, p.gateway = dial(t, p.URLOf(":81")), dial(t, p.URL)
	for _, c := range []*client{p.floor, p.gateway} {
		c.do(t, p.request, 200) // whatever is made once is there then
	}
	return p
}

// allocated is how many pieces of memory the process has allocated since it started,
// but for those that go into the answer. Prometheus's name for it is mallocs.
func (p *process) allocated(t testing.TB) int {
	t.Helper()
	resp, err := http.Get(p.AdminURL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n, ok := strings.CutPrefix(line, "go_memstats_mallocs_total "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(f)
		}
	}
	t.Fatal("the gateway does not say what it allocates")
	return 0
}

// allocations is how many a request on the connection costs. What the process does
// beside requests is spread over many, and the least of several measurements counts.
func (p *process) allocations(t testing.TB, on *client) int {
	t.Helper()
	const measurements, requests = 5, 2000
	least := 1 << 30
	for range measurements {
		before := p.allocated(t)
		scrape := p.allocated(t) - before
		before = p.allocated(t)
		on.do(t, p.request, requests)
		least = min(least, (p.allocated(t)-before-scrape+requests/2)/requests)
	}
	return least
}

// spent is the time that the process has spent on processors.
func (p *process) spent(t testing.TB) (all time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID()))
	if err != nil || len(threads) == 0 {
		t.Fatal("no threads", err)
	}
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all += time.Duration(ns)
	}
	return all
}

// BenchmarkProcessor compares the processor time of a call through the gateway with
// that of the floor: of the real binary alone, under 16 connections, in pairs that follow one another.
func BenchmarkProcessor(b *testing.B) {
	p := startProcess(b, "", "")
	const connections, each = 16, 400
	crowd := func(url string) (all []*client) {
		for range connections {
			all = append(all, dial(b, url))
		}
		return all
	}
	cost := func(of []*client) float64 {
		before := p.spent(b)
		var all sync.WaitGroup
		for _, c := range of {
			all.Go(func() { c.do(b, p.request, each) })
		}
		all.Wait()
		return float64(p.spent(b)-before) / (connections * each) / 1e3
	}
	floor, gateway := crowd(p.URLOf(":81")), crowd(p.URL)
	var floors, gateways, ratios []float64
	for b.Loop() {
		f, g := cost(floor), cost(gateway)
		floors, gateways, ratios = append(floors, f), append(gateways, g), append(ratios, g/f)
	}
	median := func(of []float64) float64 { slices.Sort(of); return of[len(of)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(floors), "floor-µs")
	b.ReportMetric(median(gateways), "gateway-µs")
	b.ReportMetric(median(ratios), "ratio")
}
