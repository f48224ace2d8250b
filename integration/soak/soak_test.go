package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/ownnet"
)

var (
	length   = flag.Duration("for", 2500*time.Millisecond, "how long the load lasts, after the calibration and the warm-up")
	warmUp   = flag.Duration("warm-up", 500*time.Millisecond, "how long the load lasts before anything is compared")
	burst    = flag.Duration("burst", 700*time.Millisecond, "how long the full load is looked for")
	sampling = flag.Duration("sample", 250*time.Millisecond, "time between two samples")
	pace     = flag.Duration("fault", 400*time.Millisecond, "time between the beginnings of two faults, or more where one lasts longer")
	streams  = flag.Int("streams", 40, "streams that are open all the time, beside the load")
	report   = flag.String("report", "", "the file that gets the report, in Markdown")
)

// Nothing is said about growth with less than this.
const (
	enough     = 20 // samples
	longEnough = 90 * time.Second
)

const sandboxes = 12

// A reload that resets connections is not what is looked for here: see ownnet.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := ownnet.Run(m, nil)
	if errors.Is(err, ownnet.ErrNotAllowed) {
		code, err = m.Run(), nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// Field reports of the groups G and H.
func TestTheGatewayServesRightAndDoesNotGrow(t *testing.T) {
	s := newStage(t, sandboxes)
	r := result{begun: time.Now(), length: *length, warmUp: *warmUp, pace: *pace, streams: *streams}

	r.restBefore = s.rest(steady(), time.Minute)
	// Whatever is made once is there then, and it is known what full load is.
	calibrated := newTally()
	during(t, *burst, func(ctx context.Context) { s.load(ctx, calibrated, asFast) })
	r.full = float64(calibrated.sum().calls()) / burst.Seconds()
	tell(t, calibrated)

	r.calls = newTally()
	var over sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	over.Go(func() { s.load(ctx, r.calls, r.full/2) })
	over.Go(func() { s.follow(ctx, r.calls, *streams) })
	over.Go(func() { r.samples = s.watch(ctx, r.calls, *sampling) })
	during(t, *warmUp+*length, func(ctx context.Context) { r.faults = s.torment(ctx, *pace) })
	r.lasted = time.Since(r.begun)
	stop()
	over.Wait()

	r.restAfter = s.rest(func(now map[measure]int) bool {
		for _, g := range atRest(r.restBefore, now) {
			if !g.flat() {
				return false
			}
		}
		return true
	}, 2*time.Minute)

	warm := 0
	for warm < len(r.samples) && r.samples[warm].at < *warmUp {
		warm++
	}
	if warm = min(warm, len(r.samples)); *length >= longEnough && len(r.samples)-warm >= enough {
		r.growths = growths(r.samples[warm:])
	}
	text := r.text(t)
	t.Logf("\n%s", text)
	if *report != "" {
		if err := os.WriteFile(*report, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
		if r.growths == nil {
			t.Errorf("a report needs %v and %d samples", longEnough, enough)
		}
	}
	tell(t, r.calls)
	for _, g := range append(r.growths, atRest(r.restBefore, r.restAfter)...) {
		if !g.flat() {
			t.Errorf("%s: %d, and %d at the beginning; at most %d", g.measure, g.last, g.first, g.bound)
		}
	}
}

// during does something for a while, and waits for its end.
func during(t *testing.T, d time.Duration, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	do(ctx)
}

// tell makes errors of the test of wrong answers.
func tell(t *testing.T, all *tally) {
	t.Helper()
	for _, err := range all.wrong {
		t.Error(err)
	}
	if sum := all.sum(); sum.wrong > 0 || sum.right == 0 {
		t.Errorf("%d answers were right, %d told what was truly wrong, %d were wrong", sum.right, sum.told, sum.wrong)
	}
}

// steady reports that nothing has changed but memory since the last look, twice.
func steady() func(map[measure]int) bool {
	var last map[measure]int
	same := 0
	return func(now map[measure]int) bool {
		if same++; last == nil || now[goroutines] != last[goroutines] || now[inUse] != last[inUse] {
			same = 0
		}
		last = now
		return same == 2
	}
}

// atRest compares what the gateway holds without a call, when it has just started and at the end. Resident memory is not compared: Go gives
// it back to the machine late, if at all. Connections that are kept for a later call are no leak; their number is bounded by that of the calls.
func atRest(before, after map[measure]int) (grown []growth) {
	for _, m := range []struct {
		measure
		more int
	}{{heap, 4 << 10}, {goroutines, 10}, {inUse, 2}} {
		grown = append(grown, growth{m.measure, before[m.measure], after[m.measure], before[m.measure] + m.more})
	}
	return grown
}

// A measure that grows is called so, and one that only goes up and down is not.
func TestGrowthIsSeen(t *testing.T) {
	for _, m := range measures {
		for _, test := range []struct {
			name string
			at   func(i int) int
			flat bool
		}{
			{"it stays", func(i int) int { return 5000 + i%7 }, true},
			{"it has a peak in the middle", func(i int) int { return map[bool]int{true: 90000, false: 5000}[i > 100 && i < 200] }, true},
			{"it doubles", func(i int) int { return 40000 + 40000*i/300 }, false},
		} {
			var all []sample
			for i := range 300 {
				all = append(all, sample{of: map[measure]int{m.measure: test.at(i)}})
			}
			for _, g := range growths(all) {
				if g.measure == m.measure && g.flat() != test.flat {
					t.Errorf("%s, %s: %+v", m.measure, test.name, g)
				}
			}
		}
	}
}
