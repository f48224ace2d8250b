package routing

import (
	"fmt"
	"strings"
)

// Domain is a name below which sandboxes have hosts.
type Domain struct {
	// Name is in lower case, without a port and a dot at the end.
	Name string
	// Port is what clients dial, with the colon, or "" for that of their scheme.
	Port string
}

// String is what the SDKs are told.
func (d Domain) String() string { return d.Name + d.Port }

// ParseDomain reads "sandbox.example.com" or "sandbox.example.com:8443": at least
// two labels of a-z 0-9 and - that begin and end with a letter or digit, and not
// all of them numbers, as in an address.
func ParseDomain(s string) (Domain, error) {
	name, port, ported := strings.Cut(s, ":")
	labels := strings.Split(name, ".")
	letters := false
	for _, label := range labels {
		if !validLabel(label) {
			return Domain{}, fmt.Errorf("%q is not a name in lower case such as sandbox.example.com", s)
		}
		letters = strings.ContainsFunc(label, func(c rune) bool { return c >= 'a' })
	}
	if len(labels) < 2 || !letters || len(name) > 189 { // 253 with a label of 63 before it
		return Domain{}, fmt.Errorf("%q is not a name in lower case such as sandbox.example.com", s)
	}
	// After the name, so that of a URL its scheme is found fault with.
	if ported {
		if _, ok := ParsePort(port); !ok {
			return Domain{}, fmt.Errorf("%q: the port must be 1 to 65535", s)
		}
		port = ":" + port
	}
	return Domain{Name: name, Port: port}, nil
}

func validLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 63
}
