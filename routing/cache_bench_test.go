package routing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keep makes sure that no compiler proves a lookup useless.
var keep *Route

func TestCacheHitAllocatesNothing(t *testing.T) {
	reg := newTable(running("a", "1"))
	c := NewCache(reg, CacheOptions{TTL: 1 << 50, Negative: 1 << 50})
	ctx := t.Context()
	for _, id := range []string{"a", "gone"} {
		ask(t, c, id)
		if n := testing.AllocsPerRun(1000, func() { keep, _, _ = c.Lookup(ctx, id) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", id, n)
		}
	}
	if n := reg.allLookups(); n != 2 {
		t.Errorf("the registry was asked %d times, want 2", n)
	}
}

func BenchmarkCacheHit(b *testing.B) {
	c := NewCache(newTable(running("a", "1")), CacheOptions{TTL: 1 << 50})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		keep, _, _ = c.Lookup(ctx, "a")
	}
}

func BenchmarkCacheHitParallel(b *testing.B) {
	const sandboxes = 1 << 14
	var ids [sandboxes]string
	reg := newTable()
	for i := range ids {
		ids[i] = fmt.Sprintf("%032x", i)
		reg.put(running(ids[i], "1"))
	}
	for name, mask := range map[string]int{"one": 0, "many": sandboxes - 1} {
		b.Run(name, func(b *testing.B) {
			c := NewCache(reg, CacheOptions{TTL: 1 << 50})
			ctx := b.Context()
			for _, id := range ids[:mask+1] {
				c.Lookup(ctx, id)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var last *Route
				i := 0
				for ; pb.Next(); i++ {
					last, _, _ = c.Lookup(ctx, ids[i&mask])
				}
				if i > 0 && last == nil {
					b.Error("no route")
				}
			})
		})
	}
}

func BenchmarkCacheMiss(b *testing.B) {
	c := NewCache(newTable(running("a", "1")), CacheOptions{})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		c.Fresh(ctx, "a")
	}
}

// A lookup among a million is as fast as memory that no processor has at hand: how fast
// that is depends on the machine, so it is measured, too. The ids lie in memory in the order
// in which they are asked for, as that of a request does: only the cache's own memory is
// visited at random.
func BenchmarkCacheHitAmongMany(b *testing.B) {
	for _, sandboxes := range []int{10_000, 1_000_000} {
		c := NewCache(registryFunc(func(_ context.Context, id string) (*Route, error) {
			return running(id, "1"), nil
		}), CacheOptions{TTL: 1 << 50, MaxEntries: sandboxes})
		id := func(i int) string { return fmt.Sprintf("%016x%016x", uint64(i)*0x9E3779B97F4A7C15, i) }
		for i := range sandboxes {
			c.Lookup(b.Context(), id(i))
		}
		for _, used := range []int{1000, sandboxes} {
			b.Run(fmt.Sprint(used, "of", sandboxes), func(b *testing.B) {
				var order strings.Builder
				const length = 32
				for _, i := range rand.Perm(sandboxes)[:used] {
					order.WriteString(id(i))
				}
				ids, ctx := order.String(), b.Context()
				before := c.Stats()
				runtime.GC() // or it goes on beside what is measured
				begun := processor(b)
				b.ReportAllocs()
				b.ResetTimer()
				for i := 0; i < b.N; i++ {
					at := i % used * length
					if keep, _, _ = c.Lookup(ctx, ids[at:at+length]); keep == nil {
						b.Fatal("no route")
					}
				}
				b.ReportMetric(float64(processor(b)-begun)/float64(b.N), "cpu-ns/op")
				if s := c.Stats(); s.Hits-before.Hits != uint64(b.N) {
					b.Fatalf("not all were hits: %+v", s)
				}
			})
		}
		b.Run(fmt.Sprint("memory", sandboxes), func(b *testing.B) {
			at := ring(sandboxes)
			runtime.GC()
			begun := processor(b)
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				at = at.next
			}
			b.ReportMetric(float64(processor(b)-begun)/float64(b.N), "cpu-ns/op")
			runtime.KeepAlive(at)
		})
	}
}

// ringed is as large as an entry of the cache.
type ringed struct {
	next *ringed
	_    [72]byte
}

// ring makes n of them that lead to each other in no order.
func ring(n int) *ringed {
	all := make([]*ringed, n)
	for i := range all {
		all[i] = new(ringed)
	}
	order := rand.Perm(n)
	for i, at := range order {
		all[at].next = all[order[(i+1)%n]]
	}
	return all[0]
}

// processor is the time that the process has spent on processors: unlike the time
// that has gone by, it does not depend on what else the machine does.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// What a push costs the gateways that do not know the sandbox, which are most of them,
// and the one that does.
func BenchmarkInvalidate(b *testing.B) {
	const sandboxes = 100_000
	ids := make([]string, sandboxes)
	for i := range ids {
		ids[i] = fmt.Sprintf("%016x%016x", uint64(i)*0x9E3779B97F4A7C15, i)
	}
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprint("known=", known), func(b *testing.B) {
			c := NewCache(newTable(), CacheOptions{})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%sandboxes == 0 && known {
					b.StopTimer()
					for _, id := range ids {
						c.mu.Lock()
						c.store(&entry{sandboxID: id, route: running(id, "1"), asked: c.now()})
						c.mu.Unlock()
					}
					b.StartTimer()
				}
				c.Invalidate(ids[i%sandboxes])
			}
		})
	}
}
