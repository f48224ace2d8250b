package bench

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// unaryH1 is what a fleet does most.
func unaryH1(s *scene, r *report) {
	all := s.start(harness.Cleartext, gateway, gatewayLogged, gatewayPlain, gatewayTwice, respond, least, stock, stockBare, library, libraryRedis, nginx, nginxRedis, haproxy)
	sum := s.unary(all, harness.Cleartext)
	r.add(sum.table("Small unary call, HTTP/1.1", fmt.Sprintf("`POST` with %d bytes of JSON, as the SDK sends it; %d bytes of JSON come back. %d connections, "+
		"kept. Two of the contestants ask Redis for each request; redis-server's own time comes on top of theirs, and is counted in one column. "+
		"The relay is the least that a proxy in Go can do behind Caddy's server and handlers: headers and body in one write, a kept connection, the standard library's "+
		"parser, and no keys, tokens, routes, limits, bounds, counts or logs. It takes %s the CPU of `respond`, and the gateway %s that of the relay.",
		len(callBody), len(answer), connections, times(sum.perSecond.ratio(respond, gateway)/sum.perSecond.ratio(least, gateway)), times(sum.perSecond.ratio(least, gateway)))))
	r.promise(promise{text: "small unary call, HTTP/1.1: requests per CPU-second over stock Caddy's", value: sum.perSecond.ratio(gateway, stock), least: 2, write: times})
	r.promise(promise{text: "the same over those of a Go proxy with one Redis `GET` per request", value: sum.perSecond.ratio(gateway, libraryRedis), least: 2, write: times})
	r.promise(promise{text: "the same, the processor time of redis-server counted", value: sum.withRedis.ratio(gateway, libraryRedis), least: 2, write: times})
	r.promise(promise{text: "the same: CPU over that of `respond`", value: sum.perSecond.ratio(respond, gateway), most: 1.4, write: times})
}

// unaryH2 is the same over TLS and HTTP/2.
func unaryH2(s *scene, r *report) {
	all := s.start(harness.TLS2, gateway, respond, stock, library, nginx, haproxy)
	sum := s.unary(all, harness.TLS2)
	r.add(sum.table("Small unary call, HTTP/2 over TLS", fmt.Sprintf("The same call. %d connections with %d requests at a time each.", connectionsH2, connections/connectionsH2)))
	r.promise(promise{text: "small unary call, HTTP/2 over TLS: requests per CPU-second over stock Caddy's", value: sum.perSecond.ratio(gateway, stock), least: 1.4, write: times})
}

// unarySum is what unary calls cost each contestant.
type unarySum struct {
	contestants []*contestant
	// perSecond are calls per second of the contestant's processor time;
	// withRedis counts redis-server's, too.
	perSecond, withRedis samples
	busy                 samples
}

func (s *scene) unary(all []*contestant, transport harness.Transport) unarySum {
	s.Helper()
	sum := unarySum{all, samples{}, samples{}, samples{}}
	callers := map[*contestant][]caller{}
	for _, c := range all {
		callers[c] = s.dialAll(c, transport)
		s.callAll(c, callers[c], *turnTime) // warms it up
	}
	takeTurns(all, *rounds, func(t turn) {
		c := t.contestant
		var calls int
		d := s.during(c, func() { calls = s.callAll(c, callers[c], *turnTime) })
		sum.perSecond.add(t, float64(calls)/d.cpu.Seconds())
		sum.withRedis.add(t, float64(calls)/(d.cpu+d.redis).Seconds())
		sum.busy.add(t, d.busy())
	})
	return sum
}

func (sum unarySum) table(title, text string) table {
	t := table{title: title, text: text,
		head: []string{"", "requests per CPU-second", "CPU per request", "the gateway's requests over them", "redis-server counted", "busy"}}
	for _, c := range sum.contestants {
		k := c.kind
		redis := "–"
		if k.asksRedis() {
			redis = kilo(sum.withRedis.of(k))
		}
		t.rows = append(t.rows, []string{string(k), kilo(sum.perSecond.of(k)), micros(1 / sum.perSecond.of(k)),
			times(sum.perSecond.ratio(gateway, k)), redis, share(sum.busy.of(k))})
	}
	return t
}

// caller is a connection that calls over and over.
type caller interface {
	// callUntil calls until it is told that the time is over, and returns how
	// many calls were answered, as they should.
	callUntil(over *atomic.Bool) (calls int, err error)
}

// dialAll opens the connections for a load.
func (s *scene) dialAll(c *contestant, transport harness.Transport) []caller {
	s.Helper()
	n, dial := connections, dialH1
	if transport == harness.TLS2 {
		n, dial = connectionsH2, dialH2
	}
	all := make([]caller, n)
	for i := range all {
		var err error
		var done func()
		if all[i], done, err = dial(c, sandbox); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(done)
	}
	return all
}

// longestTurn is how long a turn may be, as a multiple of the processor time that
// makes it, on a machine that has other things to do.
const longestTurn = 10

// callAll lets all connections call until the contestant has used so much
// processor time, and returns how many calls that made.
func (s *scene) callAll(c *contestant, callers []caller, length time.Duration) int {
	s.Helper()
	var over atomic.Bool
	begun := processorTime(s, c.pid)
	counts, errs := make([]int, len(callers)), make([]error, len(callers))
	var running sync.WaitGroup
	for i, caller := range callers {
		running.Go(func() { counts[i], errs[i] = caller.callUntil(&over) })
	}
	poll(5*time.Millisecond, longestTurn*length, func() bool { return processorTime(s, c.pid)-begun >= length })
	over.Store(true)
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("%s: %v", c.kind, err)
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
