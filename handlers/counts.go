package handlers

import (
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/tally"
)

// What calls leave behind for metrics. A call finds its place by what it has at hand, so
// that to be counted costs it an addition and nothing else.

// planes is how many planes a call may belong to, that of no call of the API included.
const planes = int(routing.DataPlane) + 1

// Counts are what the calls to one cluster leave behind, or those for which none was
// asked. Gateways that follow one another share them (Options.Counts).
type Counts struct {
	requests [tally.Stripes][planes][cause.Count]atomic.Uint64

	streams    atomic.Int64
	streamEnds [cause.Count]atomic.Uint64
	killToEnd  *tally.Histogram

	waiting    atomic.Int64
	readyWait  *tally.Histogram
	readyWaits [cause.Count]atomic.Uint64

	limits  [planes][limit.Count]atomic.Uint64
	refused [planes][refusals]atomic.Uint64
}

// NewCounts makes Counts of nothing yet.
func NewCounts() *Counts {
	return &Counts{
		killToEnd: tally.NewHistogram(time.Millisecond, 2*time.Millisecond, 5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond,
			50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond, time.Second, 2500*time.Millisecond, 10*time.Second),
		readyWait: tally.NewHistogram(100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond, time.Second, 2500*time.Millisecond,
			5*time.Second, 10*time.Second, 30*time.Second, time.Minute, 2*time.Minute),
	}
}

// Counted is what Counts hold at one moment. Whatever is not said to be of the present
// only grows.
type Counted struct {
	// Requests are the calls that are over.
	Requests [planes][cause.Count]uint64
	// Streams is how many run at present, StreamEnds how the others have ended.
	Streams    int64
	StreamEnds [cause.Count]uint64
	// KillToEnd is how long after it became known that a sandbox does not run any more
	// its streams were told so.
	KillToEnd tally.Times
	// Waiting is how many calls wait at present for sandboxes that start, ReadyWait how
	// long the others did, and ReadyWaits how that has ended: cause.OK for a sandbox
	// that runs.
	Waiting    int64
	ReadyWait  tally.Times
	ReadyWaits [cause.Count]uint64
	// Limits are the limits that calls have reached.
	Limits [planes][limit.Count]uint64
	// Refused are the credentials that opened nothing.
	Refused [planes][refusals]uint64
}

// Read returns what is held. It is read one after the other.
func (c *Counts) Read() *Counted {
	r := &Counted{Streams: c.streams.Load(), KillToEnd: c.killToEnd.Read(), Waiting: c.waiting.Load(), ReadyWait: c.readyWait.Read()}
	for end := range cause.Count {
		r.StreamEnds[end], r.ReadyWaits[end] = c.streamEnds[end].Load(), c.readyWaits[end].Load()
	}
	for plane := range planes {
		for stripe := range c.requests {
			for end := range cause.Count {
				r.Requests[plane][end] += c.requests[stripe][plane][end].Load()
			}
		}
		for i := range c.limits[plane] {
			r.Limits[plane][i] = c.limits[plane][i].Load()
		}
		for i := range c.refused[plane] {
			r.Refused[plane][i] = c.refused[plane][i].Load()
		}
	}
	return r
}

// countsOf are the counts of a cluster, those of no cluster for a name that is not
// configured.
func (g *Gateway) countsOf(cluster string) *Counts {
	for i, c := range g.opt.Clusters { // of which there are few
		if c.Name == cluster {
			return g.counts[i]
		}
	}
	return g.counts[len(g.opt.Clusters)]
}

// shareCounts takes up the counts of the clusters, and then those of none.
func (g *Gateway) shareCounts() {
	named := func(cluster string) {
		counts := g.opt.Counts[cluster]
		if counts == nil {
			counts = NewCounts()
		}
		g.counts = append(g.counts, counts)
	}
	for _, c := range g.opt.Clusters {
		named(c.Name)
	}
	named("")
}

// count takes note of a call that is over.
func (g *Gateway) count(out *Outcome) {
	c := g.countsOf(out.Cluster)
	c.requests[tally.Stripe()][out.Operation.Plane][out.End].Add(1)
	if out.Stream {
		c.streamEnds[out.End].Add(1)
	}
	if out.End != cause.OK {
		if why, refused := refusalOf(out); refused {
			c.refused[out.Operation.Plane][why].Add(1)
		}
	}
}

// toldOfEnd takes note of a call that was just told how it has ended, if it is a stream and
// that is because its sandbox does not run any more.
func (c *dataCall) toldOfEnd() {
	switch c.out.End {
	case cause.SandboxGone, cause.SandboxExpired, cause.SandboxPaused, cause.SandboxStopped, cause.SandboxFailed:
		if c.learned > 0 && c.proto.Framed() {
			c.g.countsOf(c.out.Cluster).killToEnd.Observe(time.Since(c.line.begun) - c.learned)
		}
	}
}

// countWait counts a call that begins to wait for a sandbox to start. over is called with
// what has come of it.
func (g *Gateway) countWait(cluster string) (over func(f *cause.Failure)) {
	c, begun := g.countsOf(cluster), time.Now()
	c.waiting.Add(1)
	return func(f *cause.Failure) {
		c.waiting.Add(-1)
		c.readyWait.Observe(time.Since(begun))
		c.readyWaits[f.Cause].Add(1)
	}
}

// InFlight is how many calls the gateway serves at present.
func (g *Gateway) InFlight() int64 { return g.calls.running.Load() }
