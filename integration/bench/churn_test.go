package bench

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// churnCalls is how many calls a turn has, each on a connection of its own.
const churnCalls = 3000

// churn measures clients that keep no connection.
func churn(s *scene, r *report) {
	all := s.start(harness.Cleartext, gateway, respond, stock, library, nginx, haproxy)
	perSecond, busy := samples{}, samples{}
	for _, c := range all {
		s.callEach(c, churnCalls/10, func(int) []byte { return callH1(c, sandbox) }) // warms it up
	}
	takeTurns(all, *rounds, func(t turn) {
		c := t.contestant
		request := callH1(c, sandbox)
		d := s.during(c, func() { s.callEach(c, churnCalls, func(int) []byte { return request }) })
		perSecond.add(t, churnCalls/d.cpu.Seconds())
		busy.add(t, d.busy())
	})
	t := table{
		title: "A connection for each call",
		text: fmt.Sprintf("The small unary call over HTTP/1.1 in cleartext, each on a client's connection of its own, %d at a time. Towards the upstream connections are kept.",
			connections),
		head: []string{"", "requests per CPU-second", "CPU per request", "the gateway's requests over them", "busy"},
	}
	for _, c := range all {
		k := c.kind
		t.rows = append(t.rows, []string{string(k), kilo(perSecond.of(k)), micros(1 / perSecond.of(k)), times(perSecond.ratio(gateway, k)), share(busy.of(k))})
	}
	r.add(t)
}

// callEach makes n calls, each on a connection of its own.
func (s *scene) callEach(c *contestant, n int, request func(i int) []byte) {
	s.Helper()
	errs := make([]error, connections)
	next := make(chan int)
	var running sync.WaitGroup
	for worker := range connections {
		running.Go(func() {
			for i := range next {
				if errs[worker] == nil {
					errs[worker] = callOnce(c, request(i))
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("%s: %v", c.kind, err)
	}
}

func callOnce(c *contestant, request []byte) error {
	k, err := connectH1(c)
	if err != nil {
		return err
	}
	defer k.Close()
	// Closed by a reset, the address can be used again at once.
	if err := k.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	k.request = request
	return k.call()
}
