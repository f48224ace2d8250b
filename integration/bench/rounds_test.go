package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// turn is one contestant's, right before or after another's.
type turn struct {
	*contestant
	beside kind
}

// samples are what contestants scored, one figure a turn: first whose, then beside whom.
type samples map[kind]map[kind][]float64

func (s samples) add(t turn, figure float64) {
	if s[t.kind] == nil {
		s[t.kind] = map[kind][]float64{}
	}
	s[t.kind][t.beside] = append(s[t.kind][t.beside], figure)
}

// all are a contestant's, whoever was beside it.
func (s samples) all(k kind) []float64 { return slices.Concat(slices.Collect(maps.Values(s[k]))...) }

// of is a contestant's median.
func (s samples) of(k kind) float64 { return median(s.all(k)) }

// ratio is the median of one contestant's figure over another's, pair by pair: of
// turns that were taken one right after the other.
func (s samples) ratio(of, over kind) float64 {
	ones, others := s[of][over], s[over][of]
	ratios := make([]float64, 0, len(ones))
	for i := range min(len(ones), len(others)) {
		ratios = append(ratios, ones[i]/others[i])
	}
	return median(ratios)
}

// median is NaN of nothing.
func median(of []float64) float64 { return quantile(of, 0.5) }

// quantile is the smallest figure that the given share of all is not above, and
// NaN of nothing.
func quantile(of []float64, share float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// takeTurns lets the first contestant and each of the others take turns, one pair
// after the other and as often as there are rounds. Who of a pair begins changes
// with each round, and so does the pair that does.
func takeTurns(contestants []*contestant, n int, take func(turn)) {
	first, others := contestants[0], contestants[1:]
	for round := range n {
		for i := range others {
			other := others[(round+i)%len(others)]
			pair := []turn{{first, other.kind}, {other, first.kind}}
			if round%2 == 1 {
				slices.Reverse(pair)
			}
			for _, t := range pair {
				take(t)
			}
		}
	}
}

// stretch is what went by while something was measured.
type stretch struct {
	wall time.Duration
	// cpu is the contestant's, redis that of redis-server.
	cpu, redis time.Duration
}

// busy is the share of its core that the contestant used. Far below 1 it had to
// wait for the load generator.
func (d stretch) busy() float64 { return d.cpu.Seconds() / d.wall.Seconds() }

// during measures a contestant while do runs.
func (s *scene) during(c *contestant, do func()) stretch {
	s.Helper()
	cpu, redis, begun := processorTime(s, c.pid), processorTime(s, s.redis.PID()), time.Now()
	do()
	return stretch{time.Since(begun), processorTime(s, c.pid) - cpu, processorTime(s, s.redis.PID()) - redis}
}

// poll asks every so often until it is done, or the time is over.
func poll(every, limit time.Duration, done func() bool) {
	over := time.After(limit)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// How figures are written. What was not measured is a dash.
var (
	kilo       = writer(1e-3, "%.1f k")
	mega       = writer(1e-6, "%.0f")
	micros     = writer(1e6, "%.1f µs")
	times      = writer(1, "%.2fx")
	share      = writer(100, "%.0f %%")
	permille   = writer(1000, "%.0f ‰")
	kibi       = writer(1./(1<<10), "%.1f KiB")
	mebi       = writer(1./(1<<20), "%.1f MiB")
	whole      = writer(1, "%.0f")
	nanos      = writer(1e9, "%.0f ns")
	tenths     = writer(1, "%.1f")
	hundredths = writer(1, "%.2f")
)

func writer(scale float64, format string) func(float64) string {
	return func(f float64) string {
		if math.IsNaN(f) {
			return "–"
		}
		return fmt.Sprintf(format, f*scale)
	}
}
