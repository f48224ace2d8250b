package module

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/tally"
	"github.com/caddy-e2b/gateway/version"
)

// collector reads what the app's parts have counted when Prometheus asks. Caddy makes a
// registry for each config, so every app registers a collector of its own; what it reads
// outlives it.
//
// It shows what the config has: a cluster that was taken out of it is not there any more,
// although calls to it may still run.
type collector struct{ shared *shared }

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics {
		ch <- m.desc
	}
}

// Collect implements [prometheus.Collector]. A config that nobody holds any more, which
// can be asked on a connection that its server still drains, has nothing to show.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	live, ok := c.shared.borrow()
	if !ok {
		return
	}
	defer c.shared.release()
	s := scrape{ch}
	s.process()
	calls := map[string]*handlers.Counted{}
	for name, counted := range live.counts {
		calls[name] = counted.calls.Read()
		s.calls(name, calls[name])
	}
	s.refused(calls)
	s.cache(lookups.read(), live.routes.cache.Stats())
	for _, cluster := range live.clusterNames() {
		s.registry(cluster, live.counts[cluster].registry.Read())
	}
	for cluster, failing := range live.routes.failing() {
		s.value(metricFailing, bit(failing), cluster)
	}
	s.addresses(live.members)
}

// scrape is one answer to Prometheus.
type scrape struct{ ch chan<- prometheus.Metric }

func (s scrape) value(m *metric, v float64, labels ...string) {
	out, err := prometheus.NewConstMetric(m.desc, m.kind, v, labels...)
	s.send(m, out, err)
}

func (s scrape) number(m *metric, n uint64, labels ...string) { s.value(m, float64(n), labels...) }

func (s scrape) times(m *metric, t tally.Times, labels ...string) {
	out, err := prometheus.NewConstHistogram(m.desc, t.Count, t.Sum.Seconds(), t.Buckets, labels...)
	s.send(m, out, err)
}

func (s scrape) send(m *metric, out prometheus.Metric, err error) {
	if err != nil {
		out = prometheus.NewInvalidMetric(m.desc, err)
	}
	s.ch <- out
}

// process is what belongs to no config.
func (s scrape) process() {
	v := version.Running()
	s.value(metricBuild, 1, v.Gateway, v.Revision, v.Go)
	s.value(metricDraining, bit(caddy.Exiting() || departure.draining()))
	s.value(metricInFlight, float64(departure.inFlight()))
	idle := 0
	transports.Range(func(_, t any) bool {
		idle += t.(*transport).Idle()
		return true
	})
	s.value(metricIdle, float64(idle))
}

// calls is what calls to a cluster, or to none, have left behind.
func (s scrape) calls(cluster string, c *handlers.Counted) {
	for plane := range c.Requests {
		plane := routing.Plane(plane)
		if cluster != noCluster && plane == routing.NoPlane {
			continue // there are none
		}
		for end := range cause.Count {
			s.number(metricRequests, c.Requests[plane][end], cluster, plane.String(), cause.Cause(end).String())
		}
		for l := range limit.Count {
			if plane != routing.NoPlane {
				s.number(metricLimits, c.Limits[plane][l], cluster, plane.String(), limit.Limit(l).String())
			}
		}
	}
	if cluster == noCluster {
		return
	}
	s.value(metricStreams, float64(c.Streams), cluster)
	s.value(metricReadyWaiting, float64(c.Waiting), cluster)
	s.times(metricKill, c.KillToEnd, cluster)
	s.times(metricReadyWait, c.ReadyWait, cluster)
	for end := range cause.Count {
		s.number(metricEnds, c.StreamEnds[end], cluster, cause.Cause(end).String())
		s.number(metricReadyWaits, c.ReadyWaits[end], cluster, cause.Cause(end).String())
	}
}

// refused is why credentials have opened nothing, whatever cluster they were for: most
// of them are refused before that is known.
func (s scrape) refused(calls map[string]*handlers.Counted) {
	for _, plane := range []routing.Plane{routing.NoPlane, routing.ControlPlane, routing.DataPlane} {
		for why := range handlers.RefusedCount {
			var n uint64
			for _, c := range calls {
				n += c.Refused[plane][why]
			}
			s.number(metricRefused, n, plane.String(), handlers.Refused(why).String())
		}
	}
}

// cache is what all caches have counted, and how the config's own stands.
func (s scrape) cache(all, present routing.CacheStats) {
	s.number(metricLookups, all.Hits-all.Negative, "hit")
	s.number(metricLookups, all.Negative, "negative")
	s.number(metricLookups, all.Misses, "miss")
	s.number(metricLookups, all.Fresh, "fresh")
	s.number(metricCoalesced, all.Coalesced)
	s.number(metricTurnedAway, all.Refused)
	s.number(metricStale, all.StaleServed)
	s.number(metricEvictions, all.Evictions)
	s.number(metricInvalid, all.Invalidations)
	s.number(metricFenced, all.Fenced)
	s.value(metricStaleAge, present.OldestStale.Seconds())
	s.value(metricEntries, float64(present.Entries))
	s.value(metricRegistryBusy, float64(present.InFlight))
}

func (s scrape) registry(cluster string, r routing.RegistryStats) {
	s.number(metricRegistry, r.Found, cluster, "found")
	s.number(metricRegistry, r.Gone, cluster, "gone")
	s.number(metricRegistry, r.Malformed, cluster, "malformed")
	s.number(metricRegistry, r.Unavailable, cluster, "unavailable")
	s.number(metricRegistry, r.Refused, cluster, "refused")
	s.times(metricRegistryTook, r.Took, cluster)
}

// sandboxes is the value of the label address for all that are dialled themselves.
const sandboxes = "sandboxes"

// addresses is how the roles of the clusters can be reached, and what leads there.
func (s scrape) addresses(members []*routing.Cluster) {
	connected := map[string]upstream.Connected{sandboxes: upstreams.ReadSandboxes()}
	for _, c := range members {
		for role, balancer := range map[string]*routing.Balancer{"admin": c.Admin, "proxy": c.Proxy} {
			up := map[string]bool{} // one may be given twice
			for _, e := range balancer.Endpoints() {
				up[e.Address] = up[e.Address] || e.Up()
				connected[e.Address] = upstreams.Read(e.Address)
			}
			for address, up := range up {
				s.value(metricUp, bit(up), c.Name, role, address)
			}
		}
	}
	for address, c := range connected {
		s.value(metricOpen, float64(c.Open), address)
		s.number(metricDials, c.Dialed, address)
		for why, n := range c.Failed {
			s.number(metricDial, n, address, upstream.DialFailure(why).String())
		}
	}
}

// inFlight is how many calls all gateways of the process serve.
func (e *exit) inFlight() (calls int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for g := range e.gateways {
		calls += g.InFlight()
	}
	return calls
}
