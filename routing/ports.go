package routing

import (
	"errors"
	"fmt"
	"strings"
)

// The ports of a sandbox that are nobody's business from outside, whatever the
// options say.
const (
	// sshPort is that of the sandbox's shell.
	sshPort = 22
	// RockletPort is that of ROCK's agent, which runs any command without
	// asking who wants it. On a machine that sandboxes share it is the
	// machine's own.
	RockletPort = 22555
)

// ErrForbiddenPort is a port that can never be asked for.
var ErrForbiddenPort = errors.New("this port of a sandbox cannot be reached from outside")

func forbidden(port uint16) bool { return port == sshPort || port == RockletPort }

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// ParsePortRange reads "8080" or "8000-8999": strict decimal, 1 to 65535.
func ParsePortRange(s string) (PortRange, error) {
	from, to, ranged := strings.Cut(s, "-")
	first, ok := ParsePort(from)
	if !ok {
		return PortRange{}, fmt.Errorf("%q is not a port or a range of ports such as 8080 or 8000-8999", s)
	}
	if !ranged {
		return PortRange{first, first}, nil
	}
	last, ok := ParsePort(to)
	if !ok || last < first {
		return PortRange{}, fmt.Errorf("%q is not a port or a range of ports such as 8080 or 8000-8999", s)
	}
	return PortRange{first, last}, nil
}

// exposes reports a port of a sandbox that may be reached at all. Envd's always
// may: without it there is no sandbox to an SDK.
func (c *Cluster) exposes(port uint16) bool {
	if len(c.Ports) == 0 || port == EnvdPort {
		return !forbidden(port)
	}
	for _, r := range c.Ports {
		if r.First <= port && port <= r.Last {
			return !forbidden(port)
		}
	}
	return false
}
