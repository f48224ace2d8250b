package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// headroom is how much may be allocated until memory is collected again, in bytes, or as
// much as lives, if that is more. A gateway allocates ten kilobytes for each call and
// keeps nothing of them: with Go's default one at work lives on ten megabytes, and
// collects them a dozen times a second for nothing.
const headroom = 64 << 20

// giveHeadroom sets how often memory is collected, and does so anew whenever it was. GOGC
// in the environment overrides it. How much there may be in all is Caddy's to set: nine
// tenths of what the container, or the machine, has, unless GOMEMLIMIT says otherwise.
func giveHeadroom() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 0
	var adapt func(*cycle)
	adapt = func(c *cycle) {
		metrics.Read(live)
		// It stops the world to set it, so not for a little.
		if want := percentFor(live[0].Value.Uint64()); math.Abs(float64(want-now)) > float64(now)/10 {
			debug.SetGCPercent(want)
			now = want
		}
		runtime.SetFinalizer(c, adapt) // runs after the next collection, and makes it live for one more
	}
	adapt(new(cycle))
}

// cycle is found to be unused by every collection. It has a pointer so that it is no
// part of a block of tiny objects, which go together or not at all.
type cycle struct{ _ *cycle }

// percentFor is the GOGC that gives headroom to what lives, in bytes.
func percentFor(live uint64) int {
	const leastHeap = 4 << 20 // below it Go's collector does as if it were that much
	return max(100, int(headroom*100/max(live, leastHeap)))
}
