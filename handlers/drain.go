package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// DrainPlan is the course of a drain, in parts that follow one another. A part
// is cut short when nothing is left to wait for.
type DrainPlan struct {
	// Run is how long streams run on undisturbed, and calls wait for sandboxes that
	// are starting.
	Run time.Duration
	// Spread is the time after that over which the streams that are left are
	// ended, evenly, so that their clients do not all return in one instant. After
	// it nobody waits any more to learn why a stream has broken.
	Spread time.Duration
	// Rest is how much longer all other calls may take. Those that are not
	// over then are given up; their outcome is unknown.
	Rest time.Duration
}

// PlanDrain divides a grace period. A third of it, at most 30 s, spreads the
// ends of streams, and what is left at its end, at most 1.5 s, is for the
// connections to be closed in: the parts of the plan are over by then.
func PlanDrain(grace time.Duration) DrainPlan {
	grace = max(grace, 0)
	p := DrainPlan{Spread: min(grace/3, 30*time.Second), Rest: min(grace/20, time.Second)}
	closing := min(grace/5, 1500*time.Millisecond)
	p.Run = grace - p.Spread - p.Rest - closing
	return p
}

// spreadStep is how often streams are ended while ends are spread.
const spreadStep = 20 * time.Millisecond

// Drain ends the gateway's work. From the moment it is called new calls are
// refused as cause.Drain, over HTTP/1.1 with "Connection: close". It returns nil
// when the last call is over, and the error of ctx when that comes first.
// Clients of streams are told that the sandbox still runs.
//
// It is called once.
func (g *Gateway) Drain(ctx context.Context, plan DrainPlan) error {
	g.calls.close()
	if g.calls.wait(ctx, plan.Run) {
		return nil
	}
	g.ready.drain()
	if g.endSpread(ctx, plan.Spread) {
		return nil
	}
	g.streams.drain()
	close(g.looks.hurry)
	if g.calls.wait(ctx, plan.Rest) {
		return nil
	}
	g.calls.giveUp()
	for !g.calls.wait(ctx, time.Hour) {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// endSpread ends the streams that run, evenly spread over a time. It reports
// whether the last call was over before that.
func (g *Gateway) endSpread(ctx context.Context, over time.Duration) (done bool) {
	all := g.streams.all()
	begun := time.Now()
	for next := 0; ; {
		passed := time.Since(begun)
		if passed >= over || ctx.Err() != nil {
			return false
		}
		for due := int(float64(len(all)) * float64(passed) / float64(over)); next < due; next++ {
			all[next].cancel.cancel(ended{cause.Drain})
		}
		if g.calls.wait(ctx, min(spreadStep, over-passed)) {
			return true
		}
	}
}

// closeConnection tells an HTTP/1.1 client that this is the last answer on its
// connection. HTTP/2 has no such header, and net/http would make a GOAWAY of it,
// which ends the connection's other streams in some clients.
func closeConnection(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}
