package bench

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	// idleStreams is how many silent streams there are at a time.
	idleStreams = 10_000
	// idleRounds is how many processes of each contestant hold them over
	// HTTP/1.1: what a process has once taken from the system it does not give
	// back at once, so each one is measured once.
	idleRounds = 3
	// mostPerIdle is what a silent stream may cost, in bytes of resident memory.
	mostPerIdle = 45 << 10
	// idleOnH2 is how many of them share a connection of HTTP/2: as many as Go's
	// server allows.
	idleOnH2 = 250
	// patience is how long a contestant gets to let go of what it held, and to
	// give it back.
	patience = 40 * time.Second
	// givenBack is the share of resident memory that counts as given back.
	givenBack = 0.9
)

// idle holds silent streams.
func idle(s *scene, r *report) {
	// Each stream over HTTP/1.1 takes two of a proxy's, and of the generator's.
	const reserved = 200
	allowed := harness.AllowFiles(s, 2*idleStreams+reserved)
	s.idle(r, harness.Cleartext, min(idleStreams, (allowed-reserved)/2), min(*rounds, idleRounds))
	s.idle(r, harness.TLS2, idleStreams, 1)
}

func (s *scene) idle(r *report, transport harness.Transport, n, processes int) {
	s.Helper()
	resident, used, routines, left, back := samples{}, samples{}, samples{}, samples{}, samples{}
	kinds := []kind{gateway, stock}
	for round := range processes {
		for _, k := range kinds {
			for _, c := range s.start(transport, k) {
				cost := s.hold(c, transport, n, round == 0)
				resident.add(turn{contestant: c}, float64(cost.resident)/float64(n))
				used.add(turn{contestant: c}, float64(cost.used)/float64(n))
				routines.add(turn{contestant: c}, float64(cost.goroutines)/float64(n))
				left.add(turn{contestant: c}, cost.left)
				if round == 0 {
					back.add(turn{contestant: c}, cost.back.Seconds())
				}
			}
		}
	}
	over, how := protocols[transport], "in cleartext, each on a connection of its own"
	if transport == harness.TLS2 {
		how = fmt.Sprintf("%d to a connection", idleOnH2)
	}
	t := table{
		// Over HTTP/1.1 each takes two open files of the proxy's, and two of the
		// generator's, which the system may not allow for all of them.
		title: fmt.Sprintf("%d silent streams, %s", n, over),
		text: fmt.Sprintf("Connect streams, %s, that have had one message and wait. What they cost is resident memory, after three collections of garbage, against that before. "+
			"In use are the bytes of heap and stacks that they take; of those, what is left when they have ended; and how long Go then takes until it has given %.0f %% of "+
			"the resident memory back to the system. Medians of %d processes each, the last of one.", how, 100*givenBack, processes),
		head: []string{"", "resident for each", "in use for each", "goroutines for each", "left in use", "given back after"},
	}
	for _, k := range kinds {
		t.rows = append(t.rows, []string{string(k), kibi(resident.of(k)), kibi(used.of(k)), hundredths(routines.of(k)), share(left.of(k)), fmt.Sprintf("%.0f s", back.of(k))})
	}
	r.add(t)
	r.promise(promise{text: "of the memory of silent streams over " + over + ", what is still in use after them", value: left.of(gateway), most: 0.05, write: share})
	if transport == harness.TLS2 {
		r.promise(promise{text: "silent streams held at a time", value: float64(n), least: idleStreams, write: whole})
		return
	}
	r.promise(promise{text: "a silent stream over " + over + ", in resident memory", value: resident.of(gateway), most: mostPerIdle, write: kibi})
	r.promise(promise{text: "goroutines of a silent stream fewer than stock Caddy's", value: routines.of(stock) - routines.of(gateway), least: 1.99, write: hundredths})
}

// idleCost is what silent streams cost together.
type idleCost struct {
	resident, used, goroutines int
	// left is the share of the memory in use that is still in use when they
	// have ended.
	left float64
	// back is how long the system waits for the resident memory.
	back time.Duration
}

// hold opens n streams, measures, and ends them. With wait it stays until the
// memory is given back.
func (s *scene) hold(c *contestant, transport harness.Transport, n int, wait bool) idleCost {
	s.Helper()
	s.openIdle(c, transport, 64)() // what it keeps whatever comes
	quiet(s, c)
	before, heapBefore, routinesBefore := resident(s, c.pid), heapOf(s, c).inUse, goroutines(s, c)
	end := s.openIdle(c, transport, n)
	used := heapOf(s, c).inUse - heapBefore
	quiet(s, c)
	with := resident(s, c.pid)
	cost := idleCost{resident: with - before, used: used, goroutines: goroutines(s, c) - routinesBefore}
	end()
	ended := time.Now()
	poll(50*time.Millisecond, patience, func() bool { return goroutines(s, c) <= routinesBefore+n/1000 })
	for range 3 { // what was in pools goes with the second collection
		profile(s, c, "heap?gc=1")
	}
	cost.left = float64(heapOf(s, c).inUse-heapBefore) / float64(used)
	if wait {
		poll(50*time.Millisecond, patience, func() bool { return float64(with-resident(s, c.pid)) >= givenBack*float64(with-before) })
		cost.back = time.Since(ended)
	}
	return cost
}

// quiet collects a contestant's garbage and waits until it gives no memory back
// any more. What was in pools goes with the second collection, and each one halves
// the stacks that are too large.
func quiet(tb testing.TB, c *contestant) {
	tb.Helper()
	for range 3 {
		profile(tb, c, "heap?gc=1")
	}
	const still = 10 // looks without a change of more than 0.5 %
	last, same := resident(tb, c.pid), 0
	poll(50*time.Millisecond, patience/4, func() bool {
		now := resident(tb, c.pid)
		if same++; now < last-last/200 {
			same = 0
		}
		last = now
		return same == still
	})
}

// openIdle opens n streams and takes the first message of each. end ends them
// and reads each to its end.
func (s *scene) openIdle(c *contestant, transport harness.Transport, n int) (end func()) {
	s.Helper()
	headers := headersOf(sandbox, "application/connect+json", "hold")
	request := requestH1(c, "POST", startPath, headers, len(startMessage), startMessage)
	size, open := 1, func(int) (held, error) { return openHeldH1(c, request) }
	if transport == harness.TLS2 {
		size, open = idleOnH2, func(n int) (held, error) { return openHeldH2(c, headers, n) }
	}
	all, errs := make([]held, (n+size-1)/size), make([]error, n)
	next := make(chan int)
	var opening sync.WaitGroup
	for range 32 {
		opening.Go(func() {
			for i := range next {
				all[i], errs[i] = open(min(size, n-i*size))
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	opening.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
	return func() {
		s.Helper()
		for _, c := range s.upstream.release() {
			if _, err := c.Write(streamEnd); err != nil {
				s.Fatal(err)
			}
			c.Close()
		}
		for _, h := range all {
			if err := h.finish(); err != nil {
				s.Fatalf("the end of a silent stream: %v", err)
			}
		}
	}
}

// held is a connection with streams that wait.
type held interface {
	// finish reads them to their end and closes the connection.
	finish() error
}

func openHeldH1(c *contestant, request []byte) (*client, error) {
	k, err := connectH1(c)
	if err != nil {
		return nil, err
	}
	k.request = request
	if _, err := k.send(); err != nil {
		return nil, err
	}
	line, err := k.in.line()
	if err != nil {
		return nil, err
	}
	if got, err := k.in.body(len(message) + 2); err != nil || string(line) != fmt.Sprintf("%x", len(message)) || string(got[:len(message)]) != string(message) {
		return nil, fmt.Errorf("%w: %w", errOtherAnswer, err)
	}
	return k, nil
}

func (c *client) finish() error {
	defer c.Close()
	want := streamOf(0)
	if err := c.in.chunked(want.take); err != nil {
		return err
	}
	if !want.done() {
		return errOtherAnswer
	}
	return nil
}

func openHeldH2(c *contestant, headers []header, n int) (*heldH2, error) {
	k, err := connectH2(c)
	if err != nil {
		return nil, err
	}
	k.prepare(c, startPath, headers, startMessage)
	h := &heldH2{k, map[uint32]*content{}}
	for range n {
		stream := streamOf(1)
		h.streams[k.next] = stream
		if err := k.send(); err != nil {
			return nil, err
		}
		if err := h.receive(func() bool { return stream.at == stream.whole }); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// heldH2 are the streams of a connection of HTTP/2, by number.
type heldH2 struct {
	*clientH2
	streams map[uint32]*content
}

// receive reads until enough has come. A stream that has ended is forgotten.
func (h *heldH2) receive(enough func() bool) error {
	for !enough() {
		id, data, ended, err := h.clientH2.receive()
		if err != nil {
			return err
		}
		stream := h.streams[id]
		if stream == nil { // the frame is the connection's
			continue
		}
		if err := stream.take(data); err != nil {
			return err
		}
		if ended {
			if !stream.done() {
				return errOtherAnswer
			}
			delete(h.streams, id)
		}
	}
	return nil
}

func (h *heldH2) finish() error {
	defer h.conn.Close()
	return h.receive(func() bool { return len(h.streams) == 0 })
}
