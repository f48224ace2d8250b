package chaos

import (
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

var (
	seeds = flag.Int("seeds", 0, "how many seeds, of all worlds; default: a few of each cheap world")
	from  = flag.Uint64("from", 1, "the first seed")
	one   = flag.Uint64("seed", 0, "run this seed only, and print its plan")
	only  = flag.String("world", "", "leave out the seeds of all worlds but this")
)

// quick is how many seeds of each cheap world are part of every run of the tests.
const quick = 3

// most failures of a world are told. A fault of the gateway shows in many seeds.
const most = 4

// plans are those to be run, by the world that they are in.
func plans() map[string][]plan {
	all := map[string][]plan{}
	add := func(p plan) {
		if *only == "" || *only == p.kind.name {
			all[p.kind.name] = append(all[p.kind.name], p)
		}
	}
	switch {
	case *one > 0:
		add(planOf(*one))
	case *seeds > 0:
		for i := range *seeds {
			add(planOf(*from + uint64(i)))
		}
	default:
		for seed := *from; seed < *from+quick*uint64(len(kinds)); seed++ {
			if p := planOf(seed); p.kind.cheap {
				add(p)
			}
		}
	}
	return all
}

// flatten goes through the plans of all worlds.
func flatten(all map[string][]plan) iter.Seq[plan] {
	return func(yield func(plan) bool) {
		for _, some := range all {
			for _, p := range some {
				if !yield(p) {
					return
				}
			}
		}
	}
}

func TestWhateverHappensThePromisesHold(t *testing.T) {
	harness.AllowFiles(t, 1<<14)
	harness.Build(t)
	all := plans()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endure(t, all[name])
		})
	}
}

// endure runs the seeds of one world.
func endure(t *testing.T, all []plan) {
	begun := time.Now()
	w := newWorld(t, all[0].kind)
	built := time.Since(begun)
	for _, p := range all {
		if *one > 0 {
			t.Log(p)
		}
		w.tally.seeds++
		if wrong := w.rehearse(p); len(wrong) > 0 {
			w.tally.failed++
			t.Errorf("%v%d things are wrong:\n%s", p, len(wrong), strings.Join(wrong[:min(len(wrong), 5)], "\n"))
			if w.tally.failed == most {
				t.Fatal("enough")
			}
		}
	}
	t.Logf("%v: built in %.1fs, %d seeds in %.1fs\n%v", w.kind, built.Seconds(), w.tally.seeds, time.Since(begun).Seconds(), w.tally)
}

func (y tally) String() string {
	var ends []string
	for _, end := range slices.Sorted(maps.Keys(y.ends)) {
		ends = append(ends, fmt.Sprintf("%d %s", y.ends[end], end))
	}
	return fmt.Sprintf("%d requests, %d of them streams; %d addresses recycled; at most %d files and %d goroutines more than new; "+
		"%d sandboxes answered after the faults, the last within %.2fs\n%s", y.requests, y.streams, y.recycled, y.most.files,
		y.most.goroutines, y.back, y.slowest.Seconds(), strings.Join(ends, ", "))
}
