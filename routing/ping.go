package routing

import (
	"context"
	"errors"
)

// Pinger is a registry that can be asked at less cost than a lookup whether it answers.
type Pinger interface {
	// Ping returns nil when a lookup would be answered, in whatever way.
	Ping(ctx context.Context) error
}

// PingID is the sandbox that is asked about where a registry must be asked about one. There
// is none of that name, and if there is, it does no harm.
const PingID = "e2b-gateway-ping"

// Ping asks a registry whether it answers, with the rights that a lookup needs.
func Ping(ctx context.Context, r Registry) error {
	if p, ok := r.(Pinger); ok {
		return p.Ping(ctx)
	}
	if _, err := r.Lookup(ctx, PingID); err != nil && !errors.Is(err, ErrGone) && !errors.Is(err, ErrMalformed) {
		return err
	}
	return nil
}
