package upstream

import (
	"errors"
	"net"
	"strings"
)

var errPoolKey = errors.New("not a pool key")

// Host makes the URL.Host under which connections to address are pooled for
// one life of a sandbox. Two lives never share a connection, even at the same
// address: whoever got the address of a killed sandbox must not be handed its
// connections. address is "host:port", lifecycle a string without dots.
func Host(lifecycle, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return lifecycle + ".invalid:0"
	}
	kind := ".n." // a name or an IPv4 address
	if strings.IndexByte(host, ':') >= 0 {
		// net/http would take the colons of IPv6 apart.
		kind, host = ".6.", strings.ReplaceAll(host, ":", "_")
	}
	return lifecycle + kind + host + ":" + port
}

// splitHost is the address in a pool key made by [Host].
func splitHost(key string) (address string, err error) {
	host, port, err := net.SplitHostPort(key)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(host, ".")
	kind, name, ok2 := strings.Cut(rest, ".")
	switch {
	case !ok || !ok2:
		return "", errPoolKey
	case kind == "6":
		return net.JoinHostPort(strings.ReplaceAll(name, "_", ":"), port), nil
	case kind == "n":
		return net.JoinHostPort(name, port), nil
	default:
		return "", errPoolKey
	}
}
