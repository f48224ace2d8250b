package upstream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Meter counts the connections of transports by where they lead. The addresses of roles
// are told apart, and those of sandboxes are not: there is no end of them. Its zero value
// is ready, and knows no address.
type Meter struct {
	mu        sync.Mutex
	known     map[string]*known
	sandboxes Connections
}

type known struct {
	Connections
	users int
}

// Connections is what is counted of an address.
type Connections struct {
	open   atomic.Int64
	dialed atomic.Uint64
	failed [dialFailures]atomic.Uint64
}

// DialFailure is why no connection could be made.
type DialFailure uint8

const (
	// DialRefused: nothing listens at the address.
	DialRefused DialFailure = iota
	// DialTimeout: nobody answered within the time for it.
	DialTimeout
	// DialUnreachable: there is no way to the address.
	DialUnreachable
	// DialUnresolved: the name has no address, or that cannot be found out.
	DialUnresolved
	// DialTLS: the other side does not speak it, or is not whom it should be.
	DialTLS
	// DialTunnel: the agent of the sandbox was reached, and the port was not.
	DialTunnel
	// DialOther is anything else, such as no file descriptor or no port of our own.
	DialOther

	dialFailures // how many there are

	// DialFailureCount is the same for who has a place for each.
	DialFailureCount = int(dialFailures)
)

var dialFailureNames = [dialFailures]string{"refused", "timeout", "unreachable", "unresolved", "tls", "tunnel", "other"}

// String is the failure's name in metrics.
func (f DialFailure) String() string { return dialFailureNames[f] }

// Connected is what a Meter holds of an address at one moment.
type Connected struct {
	// Open is how many connections there are at present, in use and not.
	Open int64
	// Dialed is how many were made, and Failed how many were not. They only grow.
	Dialed uint64
	Failed [dialFailures]uint64
}

// Know tells an address, "host:port", apart from those of sandboxes, until forget is
// called as often as Know was.
func (m *Meter) Know(address string) (forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string]*known{}
	}
	if m.known[address] == nil {
		m.known[address] = &known{}
	}
	m.known[address].users++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if k := m.known[address]; k.users == 1 {
			delete(m.known, address)
		} else {
			k.users--
		}
	}
}

// of is where the connections to an address are counted.
func (m *Meter) of(address string) *Connections {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.known[address]; k != nil {
		return &k.Connections
	}
	return &m.sandboxes
}

// Read returns what is held of an address that is known.
func (m *Meter) Read(address string) Connected { return m.of(address).read() }

// ReadSandboxes returns what is held of all other addresses together.
func (m *Meter) ReadSandboxes() Connected { return m.sandboxes.read() }

func (c *Connections) read() Connected {
	r := Connected{Open: c.open.Load(), Dialed: c.dialed.Load()}
	for i := range c.failed {
		r.Failed[i] = c.failed[i].Load()
	}
	return r
}

// opened counts a connection until [conn.Close].
func (c *Connections) opened(on *conn) {
	c.open.Add(1)
	on.counted = c
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	if c.counted != nil && !errors.Is(err, net.ErrClosed) { // once
		c.counted.open.Add(-1)
	}
	return err
}

// notDialed counts an attempt that has failed, unless nobody wanted it any more.
func (c *Connections) notDialed(why DialFailure, err error) {
	if !errors.Is(err, context.Canceled) {
		c.failed[why].Add(1)
	}
}

// whyNotDialed tells apart why a TCP connection could not be made.
func whyNotDialed(err error) DialFailure {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return DialUnresolved
	case errors.Is(err, syscall.ECONNREFUSED):
		return DialRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return DialUnreachable
	case errors.As(err, &timeout) && timeout.Timeout():
		return DialTimeout
	default:
		return DialOther
	}
}
