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

func kilo(f float64) string   { return fmt.Sprintf("%.1f k", f/1e3) }
func times(f float64) string  { return fmt.Sprintf("%.2fx", f) }
func micros(f float64) string { return fmt.Sprintf("%.1f µs", f*1e6) }
func share(f float64) string  { return fmt.Sprintf("%.0f %%", f*100) }
func mega(f float64) string   { return fmt.Sprintf("%.0f", f/1e6) }
