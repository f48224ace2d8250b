package routing

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// How a port of a sandbox is reached: the one place that decides where the
// gateway connects to on the word of a record.

// Unmapped is what becomes of a port that a sandbox's record does not map.
type Unmapped uint8

const (
	// UnmappedTunnel: it is reached through the rocklet in the sandbox, where the
	// record maps that.
	UnmappedTunnel Unmapped = iota
	// UnmappedDial: it is dialled at the sandbox's address, as is right for pods.
	// Where sandboxes share a host it would reach whatever else listens there.
	UnmappedDial
	// UnmappedRefuse: it cannot be reached.
	UnmappedRefuse
)

// Door is the way to a port of a sandbox.
type Door struct {
	// Address is the "host:port" to connect to, "" for the cluster's proxy role.
	Address string
	// Inside is the port to ask for when Address is that of the sandbox's rocklet,
	// and 0 when it is that of the port itself.
	Inside uint16
}

// Why a running sandbox cannot be dialled. Both are "don't know": the record
// is there, so the sandbox is not gone.
var (
	// ErrNoAddress: the record has no usable or no allowed address.
	ErrNoAddress = errors.New("the sandbox's record has no address that may be dialled")
	// ErrPortNotExposed: the sandbox runs, but this port of it cannot be
	// reached from outside.
	ErrPortNotExposed = errors.New("the port is not exposed")
)

// ThroughProxy reports that requests for a port of the cluster's sandboxes go
// through its proxy role, which knows the sandboxes itself.
func (c *Cluster) ThroughProxy(port uint16) bool { return c.Mode == ModeRock && port == EnvdPort }

// DoorTo finds the way to a port of a sandbox. The error is [ErrNoAddress] or
// [ErrPortNotExposed].
func (c *Cluster) DoorTo(r *Route, port uint16) (Door, error) {
	switch {
	case c.ThroughProxy(port):
		return Door{}, nil
	case c.Mode == ModeRock && len(c.AllowedHosts) == 0:
		return Door{}, fmt.Errorf("%w: the proxy role reaches envd's only", ErrPortNotExposed)
	case !r.Host.IsValid():
		return Door{}, fmt.Errorf("%w: %s", ErrNoAddress, r.Problem)
	}
	if why := c.refusal(r.Host); why != "" {
		return Door{}, fmt.Errorf("%w: %s: %s", ErrNoAddress, r.Host, why)
	}
	if !c.exposes(port) {
		return Door{}, ErrPortNotExposed
	}
	if mapped, ok := r.Ports.Outside(port); ok {
		return doorAt(r, mapped, 0)
	}
	switch c.Unmapped {
	case UnmappedDial:
		return dialTo(r, port)
	case UnmappedTunnel:
		return tunnelTo(r, port)
	default:
		return Door{}, ErrPortNotExposed
	}
}

// LacksMapping reports a port whose way nobody can tell before [Cache.Map] was asked:
// it depends on the mapping, and the route comes without.
func (c *Cluster) LacksMapping(r *Route, port uint16) bool {
	reachable := c.Mode == ModeDirect || len(c.AllowedHosts) > 0
	return r.PortsUnknown && reachable && !c.ThroughProxy(port) && c.exposes(port)
}

// dialTo is the way to a port that the record does not map, at its own number. A
// number that the record has given to another port is the door to that: to envd's
// without its token, or to the rocklet.
func dialTo(r *Route, port uint16) (Door, error) {
	if inside, ok := r.Ports.Inside(port); ok {
		return Door{}, fmt.Errorf("%w: the record has %d behind that number", ErrPortNotExposed, inside)
	}
	return doorAt(r, port, 0)
}

// firstForwarded is the first port that the rocklet forwards to
// (rock/common/port_validation.py).
const firstForwarded = 1024

// tunnelTo is the way through the rocklet. Nothing but the port at which the
// record says that the rocklet is will do: on a host that sandboxes share, any
// other is somebody else's.
func tunnelTo(r *Route, port uint16) (Door, error) {
	rocklet, ok := r.Ports.Outside(RockletPort)
	switch {
	case port < firstForwarded:
		return Door{}, fmt.Errorf("%w: the rocklet forwards to none below %d", ErrPortNotExposed, firstForwarded)
	case !ok:
		return Door{}, fmt.Errorf("%w: the record maps neither it nor the rocklet's", ErrPortNotExposed)
	}
	return doorAt(r, rocklet, port)
}

// doorAt is the way to a port of the sandbox's address, unless that is one that
// nobody may reach: a record can say anything.
func doorAt(r *Route, at, inside uint16) (Door, error) {
	if forbidden(at) {
		return Door{}, fmt.Errorf("%w: the record leads to %d", ErrPortNotExposed, at)
	}
	return Door{net.JoinHostPort(r.Host.String(), strconv.Itoa(int(at))), inside}, nil
}
