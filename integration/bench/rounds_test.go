package bench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// samples are what contestants scored, one figure a round each.
type samples map[kind][]float64

func (s samples) add(k kind, figure float64) { s[k] = append(s[k], figure) }

// of is a contestant's median.
func (s samples) of(k kind) float64 { return median(s[k]) }

// ratio is the median of one contestant's figure over another's, round by round.
func (s samples) ratio(of, over kind) float64 {
	ratios := make([]float64, 0, len(s[of]))
	for i := range min(len(s[of]), len(s[over])) {
		ratios = append(ratios, s[of][i]/s[over][i])
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

// takeTurns calls take for each contestant, as many times as there are rounds.
// Another one begins in each round.
func takeTurns(contestants []*contestant, n int, take func(*contestant)) {
	for round := range n {
		for i := range contestants {
			take(contestants[(round+i)%len(contestants)])
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
