package upstream

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

var errPoolKey = errors.New("not a pool key")

// Host makes the URL.Host under which connections to address are pooled for
// one life of a sandbox. Two lives never share a connection, even at the same
// address: whoever got the address of a killed sandbox must not be handed its
// connections. address is "host:port", lifecycle a string without dots.
func Host(lifecycle, address string) string { return hostOf(lifecycle, address, "") }

// TunnelHost is Host for connections to a port inside a sandbox whose rocklet is
// at address. They are no other port's, and none to the rocklet itself.
func TunnelHost(lifecycle, address string, port uint16) string {
	return hostOf(lifecycle, address, strconv.Itoa(int(port)))
}

// hostOf makes a key: the lifecycle, how the address is written, followed by the
// port inside the sandbox, and the address.
func hostOf(lifecycle, address, inside string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return lifecycle + ".invalid:0"
	}
	kind := ".n" // a name or an IPv4 address
	if strings.IndexByte(host, ':') >= 0 {
		// net/http would take the colons of IPv6 apart.
		kind, host = ".6", strings.ReplaceAll(host, ":", "_")
	}
	if inside != "" {
		inside = "-" + inside
	}
	return lifecycle + kind + inside + "." + host + ":" + port
}

// Destination is where a request with this URL.Host connects to, and the port inside
// the sandbox whose rocklet is there, or 0. It is "" for what is no pool key.
func Destination(host string) (address string, inside uint16) {
	to, err := splitHost(host)
	if err != nil {
		return "", 0
	}
	return to.address, to.inside
}

// isTunnel reports a pool key made by [TunnelHost].
func isTunnel(key string) bool {
	_, rest, _ := strings.Cut(key, ".")
	return len(rest) > 1 && rest[1] == '-'
}

// destination is what a pool key leads to.
type destination struct {
	address string // to connect to
	inside  uint16 // the port inside the sandbox whose rocklet is there, or 0
}

// splitHost reads a pool key made by [Host] or [TunnelHost].
func splitHost(key string) (to destination, err error) {
	host, port, err := net.SplitHostPort(key)
	if err != nil {
		return to, err
	}
	_, rest, ok := strings.Cut(host, ".")
	kind, name, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 {
		return to, errPoolKey
	}
	kind, inside, tunnel := strings.Cut(kind, "-")
	if tunnel {
		n, err := strconv.ParseUint(inside, 10, 16)
		if err != nil || n == 0 {
			return to, errPoolKey
		}
		to.inside = uint16(n)
	}
	switch kind {
	case "6":
		to.address = net.JoinHostPort(strings.ReplaceAll(name, "_", ":"), port)
	case "n":
		to.address = net.JoinHostPort(name, port)
	default:
		return to, errPoolKey
	}
	return to, nil
}
