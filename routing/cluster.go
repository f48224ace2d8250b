package routing

import "net/netip"

// Mode says how the data plane of a cluster is reached.
type Mode string

const (
	// ModeRock: envd's port through the cluster's proxy role, which finds the
	// sandbox by E2b-Sandbox-Id itself. Other ports as in mode direct, where
	// AllowedHosts says which addresses may be dialled, and else not at all.
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
	// AllowedHosts are the networks in which sandboxes may be dialled. An address
	// outside them is never dialled. Loopback, link-local, multicast and other
	// special addresses need an entry inside their own network, an address of the
	// gateway's own machine one of its own (/32 or /128).
	AllowedHosts []netip.Prefix
	// Own reports an address of the gateway's own. Default: those of the
	// machine's interfaces.
	Own func(netip.Addr) bool
	// Ports are the ports of sandboxes that may be reached, beside envd's.
	// Default: all. 22 and ROCK's agent's are never reached.
	Ports []PortRange
	// Unmapped is what becomes of a port that the record does not map. Default:
	// UnmappedTunnel.
	Unmapped Unmapped
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
