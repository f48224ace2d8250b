package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

// resident is what a process holds in memory, peak the most of it since
// resetPeak; in bytes.
func resident(tb testing.TB, pid int) int { return memory(tb, pid, "VmRSS:") }
func peak(tb testing.TB, pid int) int     { return memory(tb, pid, "VmHWM:") }

// resetPeak: proc(5), clear_refs.
func resetPeak(tb testing.TB, pid int) {
	tb.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		tb.Fatal(err)
	}
}

func memory(tb testing.TB, pid int, field string) int {
	tb.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	status, err := io.ReadAll(f)
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				tb.Fatal(err)
			}
			return kib << 10
		}
	}
	tb.Fatalf("no %s", field)
	return 0
}

// heap is what Go's runtime says about a Caddy's memory.
type heap struct {
	// inUse are the bytes of objects on the heap and of stacks, and mallocs is
	// how many objects were ever allocated.
	inUse, mallocs int
}

// heapOf collects a Caddy's garbage first.
func heapOf(tb testing.TB, c *contestant) heap {
	tb.Helper()
	stats := profile(tb, c, "heap?debug=1&gc=1")
	stat := func(name string) (n int) {
		_, after, found := strings.Cut(stats, "\n# "+name+" = ")
		if _, err := fmt.Sscan(after, &n); err != nil || !found {
			tb.Fatalf("no %s in the heap profile: %v", name, err)
		}
		return n
	}
	return heap{stat("HeapAlloc") + stat("Stack"), stat("Mallocs")}
}

// goroutines is how many a Caddy has.
func goroutines(tb testing.TB, c *contestant) (n int) {
	tb.Helper()
	if _, err := fmt.Sscanf(profile(tb, c, "goroutine?debug=1"), "goroutine profile: total %d", &n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// profile reads one of a Caddy's profiles.
func profile(tb testing.TB, c *contestant, name string) string {
	tb.Helper()
	resp, err := http.Get(c.admin + "/debug/pprof/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
