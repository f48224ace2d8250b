package routing

import (
	"errors"
	"net/http"
	"strings"
)

// Routing headers of the data plane. Every request of every E2B SDK to envd
// carries both.
const (
	HeaderSandboxID   = "E2b-Sandbox-Id"
	HeaderSandboxPort = "E2b-Sandbox-Port"
)

// EnvdPort is the port on which envd listens inside every sandbox. In mode
// rock it is the only port the proxy role can reach.
const EnvdPort = 49983

const envdPortText = "49983"

// Target is the sandbox and the port that a data-plane request asks for.
type Target struct {
	SandboxID string
	Port      uint16
}

// What can be wrong with the routing headers. The texts are written for the
// person who built the request; none repeats a value that was sent.
var (
	ErrNoSandboxID        = errors.New("missing header E2b-Sandbox-Id: it says which sandbox the request is for")
	ErrNoSandboxPort      = errors.New("missing header E2b-Sandbox-Port: it says which port of the sandbox the request is for")
	ErrManySandboxIDs     = errors.New("header E2b-Sandbox-Id must be sent exactly once with one value")
	ErrManySandboxPorts   = errors.New("header E2b-Sandbox-Port must be sent exactly once with one value")
	ErrInvalidSandboxID   = errors.New("invalid sandbox id: 1 to 253 of the characters A-Z a-z 0-9 - _ . are allowed, the first a letter or a digit")
	ErrInvalidSandboxPort = errors.New("invalid sandbox port: a decimal number from 1 to 65535 without sign, space or leading zero is allowed")
)

// TargetOf is the sandbox and the port that a request asks for by its host, which
// was read before, and its headers. On a preview host the headers may be missing:
// browsers send none. The SDKs send both, and must mean the same.
func TargetOf(host Host, h http.Header) (Target, error) {
	if host.Kind != PreviewHost {
		return ParseTarget(h)
	}
	target := host.Target
	ids, ports := h[HeaderSandboxID], h[HeaderSandboxPort]
	if len(ids) > 1 || len(ports) > 1 {
		return Target{}, ErrOtherTarget
	}
	if len(ids) == 1 {
		if !ValidSandboxID(ids[0]) || !strings.EqualFold(ids[0], target.SandboxID) {
			return Target{}, ErrOtherTarget
		}
		target.SandboxID = ids[0]
	}
	if len(ports) == 1 {
		if port, ok := ParsePort(ports[0]); !ok || port != target.Port {
			return Target{}, ErrOtherTarget
		}
	}
	return target, nil
}

// AsksForApp reports headers that name, as they must be, a port of a sandbox that
// is not envd's. A path does not decide whom such a request is for.
func AsksForApp(h http.Header) bool {
	if ports := h[HeaderSandboxPort]; len(ports) != 1 || ports[0] == envdPortText {
		return false
	}
	_, err := ParseTarget(h)
	return err == nil
}

// ParseTarget reads the routing headers. Both are required, once each: a value
// that could be read in two ways is refused, because the next hop might read
// the other one.
func ParseTarget(h http.Header) (Target, error) {
	ids := h[HeaderSandboxID]
	ports := h[HeaderSandboxPort]
	switch {
	case len(ids) == 0:
		return Target{}, ErrNoSandboxID
	case len(ids) > 1 || ambiguous(ids[0]):
		return Target{}, ErrManySandboxIDs
	case !ValidSandboxID(ids[0]):
		return Target{}, ErrInvalidSandboxID
	case len(ports) == 0:
		return Target{}, ErrNoSandboxPort
	case len(ports) > 1 || ambiguous(ports[0]):
		return Target{}, ErrManySandboxPorts
	}
	port, ok := ParsePort(ports[0])
	if !ok {
		return Target{}, ErrInvalidSandboxPort
	}
	if forbidden(port) {
		return Target{}, ErrForbiddenPort
	}
	return Target{SandboxID: ids[0], Port: port}, nil
}

// ParsePort reads a port as strict decimal, 1 to 65535: no sign, no space, no
// leading zero, no other base. strconv would accept some of those.
func ParsePort(s string) (uint16, bool) {
	if len(s) == 0 || len(s) > 5 || s[0] == '0' {
		return 0, false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	if n > 65535 {
		return 0, false
	}
	return uint16(n), true
}

// ambiguous reports a value that may be two values: some clients join
// repeated headers with a comma.
func ambiguous(value string) bool { return strings.IndexByte(value, ',') >= 0 }
