package module

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// Metric is one line of the table of metrics, which docs/metrics.md is made from.
type Metric struct {
	// Name is the whole name, Help what it says.
	Name, Help string
	// Type is "counter", "gauge" or "histogram".
	Type string
	// Labels are the labels in the order of their values.
	Labels []MetricLabel
}

// MetricLabel is a label of a [Metric].
type MetricLabel struct {
	Name string
	// Values are all values that there can be; nil where the config says which.
	Values []string
	// Of is where the values come from when Values is nil.
	Of string
}

const metricsPrefix = "e2b_gateway_"

// Labels that several metrics have. None is ever anything that a client chooses.
var (
	ofCluster = MetricLabel{Name: "cluster", Of: "the names of the config's clusters"}
	ofCaller  = MetricLabel{Name: "cluster", Of: "the names of the config's clusters, and `\"\"` for calls that ended before a cluster was asked"}
	ofAddress = MetricLabel{Name: "address", Of: "the addresses of the config's roles, and `sandboxes` for all that are dialled themselves"}
	ofRole    = MetricLabel{Name: "role", Values: []string{"admin", "proxy"}}
	ofPlane   = MetricLabel{Name: "plane", Values: names(int(routing.DataPlane)+1, func(i int) string { return routing.Plane(i).String() })}
	ofEnd     = MetricLabel{Name: "end", Values: names(cause.Count, func(i int) string { return cause.Cause(i).String() })}
)

func names(n int, name func(int) string) (all []string) {
	for i := range n {
		all = append(all, name(i))
	}
	return all
}

// fixed is a label with all its values.
func fixed(name string, values ...string) MetricLabel { return MetricLabel{Name: name, Values: values} }

// The metrics. Whatever is measured has a line here, and what is not here cannot be
// measured.
var (
	metricBuild = gauge("build_info", "The version that runs: always 1.",
		MetricLabel{Name: "version", Of: "the version of the module, or `unknown`"}, MetricLabel{Name: "revision", Of: "the commit it was built of, or `unknown`"},
		MetricLabel{Name: "go_version", Of: "the version of Go it was built with"})
	metricDraining = gauge("draining", "1 from the moment that the process is told to exit, 0 before.")

	metricRequests = counter("requests_total", "Calls that are over, by how they ended. ok is also an answer of ROCK's or the sandbox's own that says no.",
		ofCaller, ofPlane, ofEnd)
	metricInFlight = gauge("requests_in_flight", "Calls that are being served, streams included, also those of configs that were replaced.")

	metricStreams = gauge("streams_in_flight", "Streams that run: of the RPC protocols, WebSockets and server-sent events.", ofCluster)
	metricEnds    = counter("stream_ends_total", "Streams that are over, by how they ended.", ofCluster, ofEnd)
	metricKill    = histogram("kill_to_end_seconds", "From when the gateway learns that a sandbox does not run any more to the end of each of its RPC streams written.", ofCluster)

	metricReadyWaiting = gauge("ready_waiting", "Calls that wait for their sandbox to start.", ofCluster)
	metricReadyWaits   = counter("ready_waits_total", "Waits for a sandbox to start that are over, by what came of them: ok when it runs.", ofCluster, ofEnd)
	metricReadyWait    = histogram("ready_wait_seconds", "How long calls have waited for their sandbox to start.", ofCluster)

	metricLimits = counter("limits_reached_total", "Calls that were refused because of a limit, by which.", ofCaller, ofPlane,
		MetricLabel{Name: "limit", Values: names(limit.Count, func(i int) string { return limit.Limit(i).String() })})
	metricRefused = counter("credentials_refused_total", "Calls whose credential has opened nothing, by why.", ofPlane,
		MetricLabel{Name: "reason", Values: names(handlers.RefusedCount, func(i int) string { return handlers.Refused(i).String() })})

	metricLookups = counter("route_lookups_total", "Questions where a sandbox is: hit and negative were answered from memory, a running sandbox and any other, miss was not, and fresh were not to be.",
		fixed("result", "hit", "negative", "miss", "fresh"))
	metricCoalesced  = counter("route_lookups_coalesced_total", "Questions that shared the lookup of another.")
	metricTurnedAway = counter("route_lookups_refused_total", "Questions that found no place, or for which a registry that answers nobody was not asked.")
	metricStale      = counter("route_stale_served_total", "Questions that were answered with the last known route because the registry had no answer.")
	metricStaleAge   = gauge("route_stale_age_seconds", "The greatest age of a route that was served stale since the registry last answered, 0 if none was.")
	metricEntries    = gauge("route_cache_entries", "Answers of registries that are remembered.")
	metricEvictions  = counter("route_cache_evictions_total", "Remembered answers that had to make room for newer ones.")
	metricInvalid    = counter("route_invalidations_total", "Remembered answers that were dropped, because a registry has pushed a change or a call has made one.")
	metricFenced     = counter("route_fenced_total", "Answers of registries that came too late to be remembered.")

	metricRegistry = counter("registry_lookups_total", "Lookups by the answer of the registry: found, gone, malformed, and unavailable for none; refused were not made, because of several registries this one answered nobody a moment ago.",
		ofCluster, fixed("result", "found", "gone", "malformed", "unavailable", "refused"))
	metricRegistryTook = histogram("registry_lookup_seconds", "How long lookups took, those without an answer included.", ofCluster)
	metricRegistryBusy = gauge("registry_lookups_in_flight", "Lookups that are not over, those included that wait for a place.")
	metricFailing      = gauge("registry_failing", "1 while the registry answers nobody, 0 otherwise.", ofCluster)

	metricUp    = gauge("address_up", "1 while an address of a role accepts connections, 0 from an attempt that has failed to the next that works.", ofCluster, ofRole, MetricLabel{Name: "address", Of: "the addresses of the config's roles"})
	metricOpen  = gauge("upstream_connections", "Open connections, in use and not.", ofAddress)
	metricIdle  = gauge("upstream_connections_idle", "Open connections that are not in use, of those of plain HTTP/1.1.")
	metricDials = counter("upstream_dials_total", "Connections that were made.", ofAddress)
	metricDial  = counter("upstream_dial_errors_total", "Attempts to connect that have failed, by why.", ofAddress,
		MetricLabel{Name: "reason", Values: names(upstream.DialFailureCount, func(i int) string { return upstream.DialFailure(i).String() })})
)

// metrics are all of them, in the order of the documentation.
var metrics []*metric

// metric is a [Metric] that can be measured.
type metric struct {
	Metric
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...MetricLabel) *metric {
	return define("counter", prometheus.CounterValue, name, help, labels)
}

func gauge(name, help string, labels ...MetricLabel) *metric {
	return define("gauge", prometheus.GaugeValue, name, help, labels)
}

func histogram(name, help string, labels ...MetricLabel) *metric {
	return define("histogram", prometheus.UntypedValue, name, help, labels)
}

func define(kind string, value prometheus.ValueType, name, help string, labels []MetricLabel) *metric {
	m := &metric{Metric: Metric{metricsPrefix + name, help, kind, labels}, kind: value}
	var labelNames []string
	for _, l := range labels {
		labelNames = append(labelNames, l.Name)
	}
	m.desc = prometheus.NewDesc(m.Name, help, labelNames, nil)
	metrics = append(metrics, m)
	return m
}

// Metrics is the table of all metrics of the gateway, in the order of the documentation.
func Metrics() []Metric {
	var all []Metric
	for _, m := range metrics {
		all = append(all, m.Metric)
	}
	return all
}

// bit is a truth as Prometheus has it.
func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
