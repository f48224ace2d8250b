package handlers

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// What operators see of the streams that run, and how they end them.

// lastStream counts the streams of the process: after a reload several gateways have
// some, and an id must mean one of them.
var lastStream atomic.Uint64

// sight is what is noted of a stream when it begins. It does not change once the stream
// is added to the others.
type sight struct {
	id                         uint64
	operation, subject, client string
	port                       uint16
	begun                      time.Time
}

// Stream is a stream that runs, or a WebSocket.
type Stream struct {
	// ID is the stream's for as long as it runs, and no other's of this process.
	ID        uint64 `json:"id,string"`
	SandboxID string `json:"sandbox_id"`
	Port      uint16 `json:"sandbox_port"`
	Cluster   string `json:"cluster"`
	Operation string `json:"operation"`
	// Subject is whose sandbox it is, as far as that was asked for.
	Subject string `json:"subject,omitempty"`
	// Client is the address that the stream's connection comes from.
	Client string `json:"client"`
	// Age is in seconds, counted from the moment in which the request is sent on.
	Age float64 `json:"age_seconds"`
	// Idle is how long ago the sandbox was last heard, or the client was last sent
	// something, in seconds. Nil where nobody watches for that, as of a WebSocket.
	Idle *float64 `json:"idle_seconds"`
}

// StreamFilter says which streams are meant. Zero fields mean all.
type StreamFilter struct {
	ID                 uint64
	SandboxID, Cluster string
}

func (f StreamFilter) fits(r *running) bool {
	return (f.ID == 0 || f.ID == r.seen.id) && (f.SandboxID == "" || f.SandboxID == r.route.SandboxID) && (f.Cluster == "" || f.Cluster == r.route.Cluster)
}

// fitting are the streams that are meant, in no order.
func (s *streams) fitting(f StreamFilter) (found []*running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.SandboxID != "" {
		for r := range s.live[f.SandboxID] {
			if f.fits(r) {
				found = append(found, r)
			}
		}
		return found
	}
	for _, live := range s.live {
		for r := range live {
			if f.fits(r) {
				found = append(found, r)
			}
		}
	}
	return found
}

// Streams are the streams that run, the oldest first.
func (g *Gateway) Streams(f StreamFilter) []Stream {
	now := time.Now()
	var list []Stream
	for _, r := range g.streams.fitting(f) {
		list = append(list, Stream{
			ID: r.seen.id, SandboxID: r.route.SandboxID, Port: r.seen.port, Cluster: r.route.Cluster, Operation: r.seen.operation,
			Subject: r.seen.subject, Client: r.seen.client, Age: now.Sub(r.seen.begun).Seconds(), Idle: r.dog.quiet(now),
		})
	}
	slices.SortFunc(list, Stream.Compare)
	return list
}

// Compare puts the older stream first.
func (s Stream) Compare(other Stream) int { return cmp.Compare(s.ID, other.ID) }

// StreamCounts counts the streams that run, by cluster.
func (g *Gateway) StreamCounts() map[string]int {
	counts := map[string]int{}
	for _, r := range g.streams.all() {
		counts[r.route.Cluster]++
	}
	return counts
}

// EndStreams ends streams as a drain does: in the protocol, with cause.Drain, and
// the word that their sandbox still runs. It returns how many it has told to end;
// each ends as soon as its client takes that.
func (g *Gateway) EndStreams(f StreamFilter) int {
	found := g.streams.fitting(f)
	for _, r := range found {
		r.cancel.cancel(ended{cause.Drain})
	}
	return len(found)
}

// quiet is for how many seconds nothing has gone by, nil if nobody watches. d may be nil.
func (d *watchdog) quiet(now time.Time) *float64 {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.watching || d.ended {
		return nil
	}
	seconds := max(now.Sub(d.start)-time.Duration(d.heard.Load()), 0).Seconds()
	return &seconds
}
