package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Endpoint is one address of a role.
type Endpoint struct {
	// Scheme is "http" or "https".
	Scheme string
	// Address is "host:port", always with the port.
	Address string

	down    atomic.Bool
	probing atomic.Bool
}

// Up reports whether the address answered the last time it was dialled.
func (e *Endpoint) Up() bool { return !e.down.Load() }

// ParseEndpoint reads an address of a role: an http or https URL with a host,
// an optional port (80 or 443 by default) and nothing else.
func ParseEndpoint(raw string) (*Endpoint, error) {
	if strings.Contains(raw, "@") {
		// Not quoted: there may be a password in it.
		return nil, errors.New("an address is scheme, host and port: a user or password is not supported")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q: must start with http:// or https://", raw)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q: no host", raw)
	case strings.Contains(u.Host, "%"):
		return nil, fmt.Errorf("%q: an address with a zone is not supported", raw)
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("%q: only scheme, host and port are allowed", raw)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if _, ok := ParsePort(port); !ok {
		return nil, fmt.Errorf("%q: port must be 1 to 65535", raw)
	}
	return &Endpoint{Scheme: u.Scheme, Address: net.JoinHostPort(u.Hostname(), port)}, nil
}

// Balancer spreads calls over the addresses of one role and remembers which of
// them could not be dialled. It never retries anything itself.
//
// An address that failed is asked by a probe once every [ProbeInterval] until
// it accepts a connection again; until then calls go to the others. When none
// is up, all are offered: a wrong guess must not turn a working role away.
type Balancer struct {
	endpoints []*Endpoint
	dial      func(ctx context.Context, address string) error
	next      atomic.Uint32

	mu     sync.Mutex
	timers map[*Endpoint]*time.Timer
	closed bool
}

// ProbeInterval is the time between two probes of an address that is down.
const ProbeInterval = time.Second

// NewBalancer makes a Balancer over at least one address. dial probes an
// address: nil when it accepts connections. A nil dial uses a TCP connection.
func NewBalancer(endpoints []*Endpoint, dial func(ctx context.Context, address string) error) *Balancer {
	if dial == nil {
		dial = dialTCP
	}
	return &Balancer{endpoints: endpoints, dial: dial, timers: map[*Endpoint]*time.Timer{}}
}

func dialTCP(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// Copy returns a balancer that is in the same state and goes its own way from here
// on. It probes nothing.
func (b *Balancer) Copy() *Balancer {
	same := &Balancer{closed: true}
	for _, e := range b.endpoints {
		twin := &Endpoint{Scheme: e.Scheme, Address: e.Address}
		twin.down.Store(e.down.Load())
		same.endpoints = append(same.endpoints, twin)
	}
	same.next.Store(b.next.Load())
	return same
}

// Endpoints returns the addresses in the order of the configuration.
func (b *Balancer) Endpoints() []*Endpoint { return b.endpoints }

// Candidates returns the addresses in the order in which a call should try
// them: those that are up first. With a key the order is the key's own
// (rendezvous hashing), the same on every gateway, and adding or removing an
// address moves only the keys of that address. Without a key the calls go
// round.
func (b *Balancer) Candidates(key string) []*Endpoint {
	if len(b.endpoints) == 1 {
		return b.endpoints
	}
	order := slices.Clone(b.endpoints)
	if key == "" {
		n := int(b.next.Add(1) % uint32(len(order)))
		order = append(order[n:len(order):len(order)], order[:n]...)
	} else {
		slices.SortStableFunc(order, func(x, y *Endpoint) int {
			return cmp.Compare(score(key, y.Address), score(key, x.Address))
		})
	}
	slices.SortStableFunc(order, func(x, y *Endpoint) int {
		switch {
		case x.Up() == y.Up():
			return 0
		case x.Up():
			return -1
		default:
			return 1
		}
	})
	return order
}

// score is a key's preference for an address. FNV alone leaves the last bytes
// weakly mixed, and addresses of one role differ in just those, so the sum is
// mixed once more (the finaliser of MurmurHash3).
func score(key, address string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(address))
	h.Write([]byte{0})
	h.Write([]byte(key))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// DialFailed takes the address out of the first choice until a probe reaches
// it.
func (b *Balancer) DialFailed(e *Endpoint) {
	e.down.Store(true)
	b.schedule(e)
}

// Dialled notes that the address accepted a connection.
func (b *Balancer) Dialled(e *Endpoint) {
	if e.down.Load() {
		e.down.Store(false)
	}
}

// Reach tries to connect to the addresses that are up, and reports whether one of them
// is. It takes note of those that are not.
func (b *Balancer) Reach(ctx context.Context) bool {
	var reached atomic.Bool
	var dials sync.WaitGroup
	for _, e := range b.endpoints {
		if !e.Up() {
			continue // somebody asks it every second
		}
		dials.Go(func() {
			if b.dial(ctx, e.Address) != nil {
				b.DialFailed(e)
				return
			}
			reached.Store(true)
		})
	}
	dials.Wait()
	return reached.Load()
}

func (b *Balancer) schedule(e *Endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !e.probing.CompareAndSwap(false, true) {
		return
	}
	b.timers[e] = time.AfterFunc(ProbeInterval, func() { b.probe(e) })
}

func (b *Balancer) probe(e *Endpoint) {
	ctx, cancel := context.WithTimeout(context.Background(), ProbeInterval)
	defer cancel()
	up := b.dial(ctx, e.Address) == nil
	e.probing.Store(false)
	if up {
		b.Dialled(e)
		return
	}
	if !e.Up() {
		b.schedule(e)
	}
}

// Close ends the probes. Candidates keeps working.
func (b *Balancer) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, t := range b.timers {
		t.Stop()
	}
}

// String lists the addresses, for logs.
func (b *Balancer) String() string {
	var s []string
	for _, e := range b.endpoints {
		s = append(s, e.Address)
	}
	return strings.Join(s, " ")
}
