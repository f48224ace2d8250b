package routing

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Mode says how the data plane of a cluster is reached.
type Mode string

const (
	// ModeRock: through the cluster's proxy role, which finds the sandbox by
	// E2b-Sandbox-Id itself. Only envd's port can be reached.
	ModeRock Mode = "rock"
	// ModeDirect: at the address in the sandbox's own record.
	ModeDirect Mode = "direct"
)

// Cluster is one ROCK deployment: an admin role, a proxy role and the rules by
// which its sandboxes are reached.
type Cluster struct {
	Name  string
	Admin *Balancer
	Proxy *Balancer
	Mode  Mode
	// AllowedHosts are the networks in which sandboxes may be dialled in mode
	// direct. An address outside them is never dialled. Loopback, link-local,
	// multicast and other special addresses need an entry inside their own
	// network, an address of the gateway's own machine one of its own (/32 or
	// /128).
	AllowedHosts []netip.Prefix
	// Own reports an address of the gateway's own. Default: those of the
	// machine's interfaces.
	Own func(netip.Addr) bool
	// Ports are the ports of sandboxes that may be reached, beside envd's.
	// Default: all. 22 and ROCK's agent's are never reached.
	Ports []PortRange
	// DialUnmapped lets mode direct dial a port that the record does not map,
	// as is right for pods. Where sandboxes share a host it would reach
	// whatever else listens there, so it is off by default.
	DialUnmapped bool
	// Restarts lets a sandbox that is paused be started again, by ROCK's restart.
	Restarts bool
	// Stops lets a sandbox be paused, by ROCK's stop.
	Stops bool
	// Weight is the cluster's share of the new sandboxes that nothing else gives
	// to a cluster. Default: 0, but with no weight anywhere the first cluster gets
	// all.
	Weight int
	// Templates are patterns (path.Match) of the template ids whose new sandboxes
	// are made here.
	Templates []string
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

// DirectAddress is the "host:port" to dial for a port of a sandbox in mode
// direct.
func (c *Cluster) DirectAddress(r *Route, port uint16) (string, error) {
	if !r.Host.IsValid() {
		return "", fmt.Errorf("%w: %s", ErrNoAddress, r.Problem)
	}
	if why := c.refusal(r.Host); why != "" {
		return "", fmt.Errorf("%w: %s: %s", ErrNoAddress, r.Host, why)
	}
	if !c.exposes(port) {
		return "", ErrPortNotExposed
	}
	mapped, ok := r.Ports[port]
	if !ok {
		if !c.DialUnmapped {
			return "", ErrPortNotExposed
		}
		mapped = port
	}
	if forbidden(mapped) {
		return "", fmt.Errorf("%w: the record maps it to %d", ErrPortNotExposed, mapped)
	}
	return net.JoinHostPort(r.Host.String(), strconv.Itoa(int(mapped))), nil
}
