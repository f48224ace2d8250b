// Package heap says for a test how much memory something takes while it is done.
package heap

import (
	"runtime"
	"time"
)

// Watch watches the heap of this process from now on, every 20 ms. grown ends
// that, and says by how many bytes it was larger at most, the moment of the call
// included.
func Watch() (grown func() int64) {
	now := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	runtime.GC()
	before := now()
	over, seen := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for most := before; ; {
			select {
			case <-over:
				seen <- max(most, now()) - before
				return
			case <-tick.C:
				most = max(most, now())
			}
		}
	}()
	return func() int64 {
		close(over)
		return <-seen
	}
}
