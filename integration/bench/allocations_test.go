package bench

import (
	"fmt"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// counted is how many calls one count of allocations divides by. It is large, so
// that what a process does beside them vanishes.
const counted = 5000

// mostAllocations is how many objects the gateway may allocate for a call, on top
// of `respond`.
const mostAllocations = 30

// allocations counts the objects that are allocated for a call.
func allocations(s *scene, r *report) {
	all := s.start(harness.Cleartext, gateway, gatewayLogged, respond, stock, stockBare)
	objects := samples{}
	clients := map[*contestant]*client{}
	for _, c := range all {
		k, err := connectH1(c)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { k.Close() })
		k.request = callH1(c, sandbox)
		clients[c] = k
		s.call(c, k, counted/10) // warms it up
	}
	takeTurns(all, *rounds, func(t turn) {
		c := t.contestant
		first := heapOf(s, c).mallocs
		idle := heapOf(s, c).mallocs - first // what it takes to ask
		before := heapOf(s, c).mallocs
		s.call(c, clients[c], counted)
		objects.add(t, float64(heapOf(s, c).mallocs-before-idle)/counted)
	})
	t := table{
		title: "Allocations of a call",
		text: fmt.Sprintf("Objects allocated for a small unary call over HTTP/1.1, with the round trip to the upstream, as Go's runtime counts them: over %d calls, one after the other.",
			counted),
		head: []string{"", "objects", "above `respond`"},
	}
	for _, c := range all {
		t.rows = append(t.rows, []string{string(c.kind), tenths(objects.of(c.kind)), tenths(objects.of(c.kind) - objects.of(respond))})
	}
	r.add(t)
	r.promise(promise{text: "allocations of a cached call above `respond`'s", value: objects.of(gateway) - objects.of(respond), most: mostAllocations, write: tenths})
}

// call makes n calls, one after the other.
func (s *scene) call(c *contestant, k *client, n int) {
	s.Helper()
	for range n {
		if err := k.call(); err != nil {
			s.Fatalf("%s: %v", c.kind, err)
		}
	}
}
