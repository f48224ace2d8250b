package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
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
	sizes := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	now, before := 0, uint64(0)
	var adapt func(*cycle)
	adapt = func(c *cycle) {
		metrics.Read(sizes)
		live, stacks := sizes[0].Value.Uint64(), sizes[1].Value.Uint64()
		grows := live > before+before/8
		before = live
		// It stops the world to set it, so not for a little.
		if want := percentFor(live, stacks, grows); math.Abs(float64(want-now)) > float64(now)/10 {
			debug.SetGCPercent(want)
			now = want
		}
		runtime.SetFinalizer(c, adapt) // runs after the next collection, and makes it live for one more
	}
	adapt(new(cycle))
	go collectAtWork()
}

// cycle is found to be unused by every collection. It has a pointer so that it is no
// part of a block of tiny objects, which go together or not at all.
type cycle struct{ _ *cycle }

// percentFor is the GOGC that gives headroom to what lives, in bytes; the percentage is of
// the stacks as well. What grows is collected after a quarter of it: streams that begin
// together stay, and the more is collected only when all are there, the more gaps it
// leaves between them, which stay too.
func percentFor(live, stacks uint64, grows bool) int {
	const (
		leastHeap    = 4 << 20 // below it Go's collector does as if it were that much
		whileGrowing = 25
	)
	percent := max(100, int(headroom*100/max(live, leastHeap)))
	if all := live + stacks; grows && all > headroom {
		percent = min(percent, max(whileGrowing, int(headroom*100/all)))
	}
	return percent
}

// collectAtWork sees to it that a process at work is collected in its first second and
// at least every eighth, for as long as the process lives: Go makes the stack of a new
// goroutine as large as those that the last collection found. Until there is one, each
// goroutine starts with 2 KiB and copies its stack up to three times, and net/http makes
// one for every frame of HTTP/2 that it sends. A little work allocates so little that the
// next collection by itself is two minutes away.
func collectAtWork() {
	var p pace
	counters := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/allocs:bytes"}}
	for wait := shortestPace; ; {
		time.Sleep(wait)
		metrics.Read(counters)
		due := false
		if wait, due = p.next(counters[0].Value.Uint64(), counters[1].Value.Uint64()); due {
			runtime.GC()
		}
	}
}

const (
	shortestPace = time.Second
	longestPace  = 8 * time.Second
	// work is how many bytes a process has allocated that was at work since it was
	// collected, and rest how many one that was not since it was looked at.
	work = 1 << 20
	rest = work / 8
)

// pace tells when a process at work is to be collected.
type pace struct {
	wait      time.Duration // until the next look, 0 before the first
	cycles    uint64        // at the last look
	collected uint64        // bytes allocated until it was collected
	seen      uint64        // and until the last look
}

// next is told how often memory was collected and how many bytes were allocated since
// the process began. It returns when to look again, and whether to collect now.
func (p *pace) next(cycles, allocated uint64) (wait time.Duration, due bool) {
	if p.wait = min(2*p.wait, longestPace); p.wait == 0 || allocated-p.seen < rest {
		p.wait = shortestPace
	}
	p.seen = allocated
	if due = cycles == p.cycles && allocated-p.collected >= work; due {
		cycles++ // the one that comes now
	}
	if cycles != p.cycles {
		p.cycles, p.collected = cycles, allocated
	}
	return p.wait, due
}
