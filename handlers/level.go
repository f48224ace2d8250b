package handlers

import (
	"context"
	"time"
)

// notFoundFloor is what it takes at least to say that there is no such sandbox,
// or none of the caller's. Whether a sandbox exists would otherwise show in the
// time: a route in memory is found in microseconds, and for an id that nobody has,
// the registry and perhaps ROCK are asked. An answer that takes longer takes a
// multiple of it.
const notFoundFloor = 200 * time.Millisecond

// level waits until the time since begun is a multiple of the floor, or ctx ends.
func (g *Gateway) level(ctx context.Context, begun time.Time) {
	wait := time.NewTimer(g.floor - time.Since(begun)%g.floor)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}
