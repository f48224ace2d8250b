package routing

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Where the gateway may connect to on the word of a record. Whoever can write a
// record, or be given an address, must not make the gateway talk to itself, to
// its neighbours on the same machine, or to the machine's cloud.

// special are the networks in which no sandbox is, however wide the allowed
// networks are. Only an allowed network that lies inside one opens it.
var special = prefixes(
	"0.0.0.0/8",          // this host (RFC 1122), what Linux connects to loopback
	"127.0.0.0/8",        // loopback
	"169.254.0.0/16",     // link-local, and the metadata services of most clouds
	"100.100.100.200/32", // metadata service of Alibaba Cloud
	"168.63.129.16/32",   // Azure's
	"192.0.0.0/24",       // protocol assignments (RFC 6890), Oracle's metadata service
	"224.0.0.0/4",        // multicast
	"240.0.0.0/4",        // reserved, and broadcast
	"::/96",              // unspecified, loopback, and the old way to write IPv4
	"64:ff9b::/96",       // IPv4 through a translator (RFC 6052): any of the above
	"64:ff9b:1::/48",     // the same (RFC 8215)
	"2002::/16",          // the same (6to4)
	"fd00:ec2::254/128",  // metadata service of AWS
	"fe80::/10",          // link-local
	"ff00::/8",           // multicast
)

func prefixes(all ...string) (p []netip.Prefix) {
	for _, s := range all {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

// refusal is why a host must not be dialled, "" when it may.
func (c *Cluster) refusal(host netip.Addr) string {
	host = host.Unmap() // else IPv4 could be written so that no rule meets it
	within := smallest(c.AllowedHosts, host)
	switch of := smallest(special, host); {
	case !within.IsValid():
		return "it is outside the allowed networks"
	case of.IsValid() && within.Bits() < of.Bits():
		return "it is special (" + of.String() + "), and no allowed network lies inside of that"
	case of.IsValid(), within.IsSingleIP():
		return ""
	case c.isOwn(host):
		return "it is the gateway's own, and not allowed by itself"
	default:
		return ""
	}
}

// smallest is the longest prefix that contains an address, or the zero one.
func smallest(all []netip.Prefix, host netip.Addr) (found netip.Prefix) {
	for _, p := range all {
		if p.Contains(host) && (!found.IsValid() || p.Bits() > found.Bits()) {
			found = p
		}
	}
	return found
}

func (c *Cluster) isOwn(host netip.Addr) bool {
	if c.Own != nil {
		return c.Own(host)
	}
	return interfaces.has(host)
}

// interfaces are the addresses of this machine.
var interfaces ownAddresses

// ownAddresses remembers the addresses of this machine for a while: asking takes
// longer than all the rest of a request.
type ownAddresses struct {
	mu    sync.Mutex // held by the one who asks
	known atomic.Pointer[ownKnown]
}

type ownKnown struct {
	addresses map[netip.Addr]bool
	asked     time.Time
}

// ownAge is how old that knowledge gets. Addresses of machines and pods change
// when they start, hardly ever later.
const ownAge = 30 * time.Second

func (o *ownAddresses) has(host netip.Addr) bool {
	known := o.known.Load()
	if known == nil || time.Since(known.asked) > ownAge {
		known = o.ask(known)
	}
	return known.addresses[host]
}

// ask finds the addresses out. While somebody else does, the old ones do.
func (o *ownAddresses) ask(old *ownKnown) *ownKnown {
	if old != nil {
		if !o.mu.TryLock() {
			return old
		}
	} else {
		o.mu.Lock()
		if known := o.known.Load(); known != nil {
			o.mu.Unlock()
			return known
		}
	}
	defer o.mu.Unlock()
	now := &ownKnown{addresses: map[netip.Addr]bool{}, asked: time.Now()}
	all, err := net.InterfaceAddrs()
	if err != nil && old != nil {
		now.addresses = old.addresses
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				now.addresses[ip.Unmap()] = true
			}
		}
	}
	o.known.Store(now)
	return now
}
