// Package bench holds the gateway against what else could stand in its place:
// stock Caddy's reverse_proxy, Caddy's bare respond, the standard library's
// reverse proxy, nginx, HAProxy, and two proxies that ask Redis for each request.
//
// Each contestant is a process of its own and has one core to itself. The load
// generator, the upstream and redis-server share the other; for latencies the first
// two join the contestant. Contestants take
// turns, in rounds whose order rotates, so that what else the machine does hits
// all alike. What counts is the processor time of the contestant, which the
// kernel keeps to the nanosecond, and ratios: medians of those of each round.
//
// `make bench` runs every load and writes docs/benchmarks.md, with the promises
// and whether they hold. One load alone, which writes nothing:
//
//	make bench ARGS='-bench Promises/unary -rounds 5'
package bench
