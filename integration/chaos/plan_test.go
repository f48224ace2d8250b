package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// step is one fault of a plan: it begins at a time after the seed's begin, and ends.
type step struct {
	at, lasts time.Duration
	fault     fault
	// a, b and c are what the fault makes of them: which sandbox, which byte, how slow.
	a, b, c int
}

// plan is what a seed decides.
type plan struct {
	seed    uint64
	kind    kind
	length  time.Duration
	steps   []step
	workers int
}

const (
	// sandboxes of a seed.
	sandboxes = 6
	// workers of a seed, each with a client of its own.
	workers = 8
)

// random is the source of a seed's decisions about one thing.
func random(seed, about uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, about)) }

// planOf makes the plan of a seed. kinds are all worlds that there are: which of them a seed is in does not depend on which are built.
func planOf(seed uint64) plan {
	r := random(seed, 0)
	p := plan{seed: seed, kind: kinds[seed%uint64(len(kinds))], workers: workers}
	p.length = between(r, 1200*time.Millisecond, 2000*time.Millisecond)
	var fitting []fault
	for _, f := range faults {
		if f.fits(p.kind) {
			for range f.weight {
				fitting = append(fitting, f)
			}
		}
	}
	once := map[string]bool{}
	for range 2 + r.IntN(4) {
		s := step{fault: fitting[r.IntN(len(fitting))], a: r.IntN(1 << 20), b: r.IntN(1 << 20), c: r.IntN(1 << 20)}
		s.at = between(r, 50*time.Millisecond, p.length*2/3)
		s.lasts = between(r, 50*time.Millisecond, 900*time.Millisecond)
		if s.fault.once && once[s.fault.group()] {
			continue
		}
		once[s.fault.group()] = true
		p.length = max(p.length, s.at+s.fault.takes)
		p.steps = append(p.steps, s)
	}
	slices.SortFunc(p.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return p
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1)).Round(time.Millisecond)
}

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v, %v long\n", p.seed, p.kind, p.length)
	for _, s := range p.steps {
		fmt.Fprintf(&b, "  %v\n", s)
	}
	return b.String()
}

func (s step) String() string {
	return fmt.Sprintf("at %-6v for %-6v %s (%d, %d, %d)", s.at, s.lasts, s.fault.name, s.a, s.b, s.c)
}
