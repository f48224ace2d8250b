package module

import (
	"maps"
	"sync"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// Counters must not fall when a config is loaded anew. So what is counted belongs to none:
// it is kept for as long as some config, or some request of one, has what it is counted for.

// counted is what is counted for one cluster, or for the calls of no cluster.
type counted struct {
	calls    *handlers.Counts
	registry *routing.RegistryCounts
}

// Destruct does nothing: what was counted is forgotten.
func (*counted) Destruct() error { return nil }

// noCluster is the name under which is counted what belongs to no cluster.
const noCluster = ""

// leaseCounts takes a hold of what is counted for a cluster.
func leaseCounts(l *leases, cluster string) (*counted, error) {
	return lease(l, counts, cluster, func() (*counted, error) {
		return &counted{handlers.NewCounts(), routing.NewRegistryCounts()}, nil
	})
}

// leaseCounts takes a hold of what is counted for all clusters and for none.
func (l *live) leaseCounts() error {
	l.counts = map[string]*counted{}
	for _, name := range append([]string{noCluster}, l.clusterNames()...) {
		c, err := leaseCounts(&l.parts, name)
		if err != nil {
			return err
		}
		l.counts[name] = c
	}
	return nil
}

func (l *live) clusterNames() (names []string) {
	for _, c := range l.members {
		names = append(names, c.Name)
	}
	return names
}

// callCounts are the counts of a gateway.
func (l *live) callCounts() map[string]*handlers.Counts {
	calls := map[string]*handlers.Counts{}
	for name, c := range l.counts {
		calls[name] = c.calls
	}
	return calls
}

// upstreams counts what all transports have.
var upstreams = new(upstream.Meter)

// lookups are the counters of all caches that there are, and of those that there were.
var lookups ledger

// ledger adds up the counters of caches. It keeps what a cache has counted when it goes.
type ledger struct {
	mu      sync.Mutex
	caches  map[*routing.Cache]struct{}
	retired routing.CacheStats // only what grows
}

// enter takes up a cache, until leave is called.
func (l *ledger) enter(c *routing.Cache) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.caches == nil {
		l.caches = map[*routing.Cache]struct{}{}
	}
	l.caches[c] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.caches, c)
		l.retired = l.retired.Plus(c.Stats())
	}
}

// read returns the sum of the counters.
func (l *ledger) read() routing.CacheStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := l.retired
	for c := range maps.Keys(l.caches) {
		sum = sum.Plus(c.Stats())
	}
	return sum
}
