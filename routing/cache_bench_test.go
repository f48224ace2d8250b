package routing

import (
	"fmt"
	"testing"
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
