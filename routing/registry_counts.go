package routing

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/tally"
)

// RegistryCounts are what the questions to one cluster's registry leave behind. It must
// be made by [NewRegistryCounts]; a nil one counts nothing.
type RegistryCounts struct {
	found, gone, malformed, unavailable, refused atomic.Uint64
	took                                         *tally.Histogram
}

// NewRegistryCounts makes RegistryCounts of nothing yet.
func NewRegistryCounts() *RegistryCounts {
	return &RegistryCounts{took: tally.NewHistogram(250*time.Microsecond, 500*time.Microsecond, time.Millisecond, 2500*time.Microsecond,
		5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond,
		500*time.Millisecond, time.Second, 2500*time.Millisecond)}
}

// RegistryStats is what RegistryCounts hold at one moment. All of it only grows.
type RegistryStats struct {
	// Found, Gone, Malformed and Unavailable are how the questions were answered;
	// Unavailable is every error that is none of the others.
	Found, Gone, Malformed, Unavailable uint64
	// Refused were not put: the registry has answered nobody for a moment.
	Refused uint64
	// Took is how long the answers took, those of a failure included.
	Took tally.Times
}

// Read returns what is held. It is read one after the other.
func (c *RegistryCounts) Read() RegistryStats {
	return RegistryStats{
		Found:       c.found.Load(),
		Gone:        c.gone.Load(),
		Malformed:   c.malformed.Load(),
		Unavailable: c.unavailable.Load(),
		Refused:     c.refused.Load(),
		Took:        c.took.Read(),
	}
}

// answered counts an answer.
func (c *RegistryCounts) answered(err error, took time.Duration) {
	if c == nil {
		return
	}
	switch {
	case err == nil:
		c.found.Add(1)
	case errors.Is(err, ErrGone):
		c.gone.Add(1)
	case errors.Is(err, ErrMalformed):
		c.malformed.Add(1)
	default:
		c.unavailable.Add(1)
	}
	c.took.Observe(took)
}

func (c *RegistryCounts) notAsked() {
	if c != nil {
		c.refused.Add(1)
	}
}
