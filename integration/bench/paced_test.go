package bench

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	// pacedStreams is how many streams each contestant relays.
	pacedStreams = 10
	// messageTurn is how long a round is: a hundredth of its messages is what a
	// 99th percentile is made of.
	messageTurn = 6 * time.Second
)

// paced measures how long a message is on its way through a stream. All
// contestants relay at once, in an order drawn anew for each message, so that what
// the machine does meanwhile, and what each does to the others, hits all alike.
func paced(s *scene, r *report) {
	defer s.join()()
	s.paced(r, harness.Cleartext, messageTurn, gateway, stock, library, nginx, haproxy, none)
	s.paced(r, harness.TLS2, messageTurn, gateway, stock, library, nginx, haproxy)
}

func (s *scene) paced(r *report, transport harness.Transport, length time.Duration, kinds ...kind) {
	s.Helper()
	all := s.start(transport, kinds...)
	p := &pacedRun{}
	var ends []func() error
	for range pacedStreams {
		for _, c := range all {
			read, err := openPaced(c, transport)
			if err != nil {
				s.Fatalf("%s: %v", c.kind, err)
			}
			ended := make(chan error, 1)
			go func() { ended <- read(p.receiver(c.kind)) }()
			ends = append(ends, func() error { return <-ended })
		}
	}
	streams := s.upstream.release()
	p.during(func() { s.send(streams, length/2) }) // warms it up
	took, ratios := map[kind][]latencies{}, []float64(nil)
	for range *rounds {
		round := undisturbed(s, length, func() map[kind]latencies {
			return p.during(func() { s.send(streams, length) })
		})
		for k, l := range round {
			took[k] = append(took[k], l)
		}
		if len(round[stock]) > 0 {
			ratios = append(ratios, round[gateway].p99()/round[stock].p99())
		}
	}
	for _, c := range streams {
		if _, err := c.Write(streamEnd); err != nil {
			s.Fatal(err)
		}
		c.Close()
	}
	for _, end := range ends {
		if err := end(); err != nil {
			s.Fatal(err)
		}
	}
	t := table{
		title: "Latency of messages of 1 KiB, " + protocols[transport],
		text: fmt.Sprintf("%d messages a second in all, to %d streams through each contestant at the same time, in an order drawn by lot. From when a message is due at the upstream until the client "+
			"has all of it, all on one core. Medians of %d rounds of %v.", pace, pacedStreams, *rounds, length) + s.hostText(),
		head: latencyHead,
	}
	for _, c := range all {
		t.rows = append(t.rows, latencyRow(string(c.kind), took[c.kind], took[none]))
	}
	r.add(t)
	r.promise(promise{text: "messages of 1 KiB, " + protocols[transport] + ": p99 of latency over stock Caddy's", value: median(ratios), most: 1, write: times})
}

// pacedRun gathers what receivers see.
type pacedRun struct {
	mu   sync.Mutex
	took map[kind]latencies
}

// during returns what came while do ran.
func (p *pacedRun) during(do func()) map[kind]latencies {
	begun := map[kind]latencies{}
	p.mu.Lock()
	p.took = begun
	p.mu.Unlock()
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = map[kind]latencies{} // of what comes late
	return begun
}

var epoch = time.Now()

// stampAt is where a message carries the moment at which it was due, as 16
// digits: nanoseconds since epoch.
const stampAt = envelope.PrefixSize + len(`{"event":{"data":{"stdout":"`)

// send sends messages at the pace, each to a stream that is drawn by lot.
func (s *scene) send(streams []net.Conn, length time.Duration) {
	s.Helper()
	stamped := chunk(message)
	at := len(stamped) - len(message) - 2 + stampAt
	atPace(length, func(_ int, due time.Time) {
		copy(stamped[at:], fmt.Appendf(nil, "%016d", due.Sub(epoch)))
		if _, err := streams[rand.IntN(len(streams))].Write(stamped); err != nil {
			s.Fatal(err)
		}
	})
}

// receiver returns a function that is shown the pieces of a stream. It notes how
// long each message took, the first apart, which has no stamp.
func (p *pacedRun) receiver(k kind) func(piece []byte) error {
	var got []byte
	return func(piece []byte) error {
		for got = append(got, piece...); len(got) >= len(message); got = got[len(message):] {
			sent, err := strconv.ParseInt(string(got[stampAt:stampAt+16]), 10, 64)
			if err != nil {
				continue // the first message
			}
			took := time.Since(epoch) - time.Duration(sent)
			p.mu.Lock()
			p.took[k] = append(p.took[k], took.Seconds())
			p.mu.Unlock()
		}
		return nil
	}
}

// openPaced opens a stream and waits for its first message. read shows the rest
// to look, to its end.
func openPaced(c *contestant, transport harness.Transport) (read func(look func([]byte) error) error, err error) {
	headers := headersOf(sandbox, "application/connect+json", "hold")
	if transport != harness.TLS2 {
		k, err := openHeldH1(c, requestH1(c, "POST", startPath, headers, len(startMessage), startMessage))
		if err != nil {
			return nil, err
		}
		return func(look func([]byte) error) error { defer k.Close(); return k.in.chunked(look) }, nil
	}
	k, err := openHeldH2(c, headers, 1)
	if err != nil {
		return nil, err
	}
	return func(look func([]byte) error) error {
		defer k.conn.Close()
		for {
			_, data, ended, err := k.clientH2.receive()
			if err == nil {
				err = look(data)
			}
			if err != nil || ended {
				return err
			}
		}
	}, nil
}
