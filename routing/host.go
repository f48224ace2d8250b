package routing

import (
	"errors"
	"strings"
)

// The host of a request is read here, once, before anything else is: it says
// whether paths and headers decide whom the request is for, as on a host that all
// sandboxes share, or the host itself does, "<port>-<sandbox id>.<domain>".

// HostKind is what a host is to the gateway.
type HostKind uint8

const (
	// OtherHost is below no domain: an address, localhost, any name that leads
	// here. Paths and headers decide.
	OtherHost HostKind = iota
	// SharedHost is a domain itself, or its "api." or "sandbox." host. Paths and
	// headers decide.
	SharedHost
	// PreviewHost belongs to one port of one sandbox.
	PreviewHost
)

// Host is what the host of a request says.
type Host struct {
	Kind HostKind
	// Target is whom a PreviewHost belongs to. The id is in lower case: clients
	// fold hosts as they like (RFC 9110 section 4.2.3), and ids are told apart by
	// case, so that one with capitals needs the header E2b-Sandbox-Id as well.
	Target Target
}

// What can be wrong with a host. The texts are written for whoever made the URL.
var (
	// ErrForeignHost is a host of another gateway: it looks like one of a
	// sandbox, but not of a sandbox here, or it is a name below a domain that
	// nothing has.
	ErrForeignHost = errors.New("nothing is served at this host: below the domain of this gateway there are api, sandbox and <port>-<sandbox id>, and no other names")
	// ErrInvalidHost is a host of a sandbox that cannot be read.
	ErrInvalidHost = errors.New("invalid host of a sandbox: <port>-<sandbox id>.<domain> is expected, the port a decimal number from 1 to 65535")
	// ErrOtherTarget is a request whose headers and whose host name two different
	// sandboxes or ports.
	ErrOtherTarget = errors.New("the headers E2b-Sandbox-Id and E2b-Sandbox-Port must name the sandbox and the port of the host, once, or not be sent")
)

// Hosts reads hosts. The nil Hosts knows no domain.
type Hosts struct {
	// domains are by name: one may be listed with several ports.
	domains map[string][]Domain
	first   Domain
}

// NewHosts makes a reader of the hosts below these domains. Without any it is nil,
// to which every host is an OtherHost.
func NewHosts(domains []Domain) *Hosts {
	if len(domains) == 0 {
		return nil
	}
	h := &Hosts{domains: make(map[string][]Domain, len(domains)), first: domains[0]}
	for _, d := range domains {
		h.domains[d.Name] = append(h.domains[d.Name], d)
	}
	return h
}

// Read reads the Host of a request: in any case, with or without a port, and with
// or without a dot at its end. A domain inside another one has its own hosts. The
// errors are ErrForeignHost, ErrInvalidHost, ErrInvalidSandboxID and
// ErrForbiddenPort.
func (h *Hosts) Read(host string) (Host, error) {
	if h == nil {
		return Host{}, nil
	}
	name, port := splitPort(host)
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	labels, domain := h.below(name, port)
	switch {
	case domain.Name == "" && previewLike(name):
		return Host{}, ErrForeignHost
	case domain.Name == "":
		return Host{}, nil
	case name == domain.Name, labels == "api", labels == "sandbox":
		return Host{Kind: SharedHost}, nil
	case strings.IndexByte(labels, '.') >= 0 || !startsWithDigit(labels):
		return Host{}, ErrForeignHost
	}
	target, err := parsePreview(labels)
	if err != nil {
		return Host{}, err
	}
	return Host{Kind: PreviewHost, Target: target}, nil
}

// DomainFor is the domain that whoever has asked for this host can reach: the one
// that the host belongs to, else the first. The zero Domain when there is none.
func (h *Hosts) DomainFor(host string) Domain {
	if h == nil {
		return Domain{}
	}
	name, port := splitPort(host)
	if _, domain := h.below(strings.ToLower(strings.TrimSuffix(name, ".")), port); domain.Name != "" {
		return domain
	}
	return h.first
}

// below finds the longest domain that name ends in, and what stands before it
// without the dot between. The zero Domain: none.
func (h *Hosts) below(name, port string) (labels string, domain Domain) {
	for rest := name; rest != ""; {
		if same := h.domains[rest]; len(same) > 0 {
			return strings.TrimSuffix(name[:len(name)-len(rest)], "."), byPort(same, port)
		}
		_, next, more := strings.Cut(rest, ".")
		if !more {
			break
		}
		rest = next
	}
	return "", Domain{}
}

// byPort is the one of a domain's entries with the port that was dialled, else the
// first.
func byPort(same []Domain, port string) Domain {
	for _, d := range same {
		if d.Port == port {
			return d
		}
	}
	return same[0]
}

// splitPort takes the port off a host, with its colon. What has a colon elsewhere
// is no name, and stays as it is.
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.IndexByte(host, ':') != i {
		return host, ""
	}
	for _, c := range []byte(host[i+1:]) {
		if c < '0' || c > '9' {
			return host, ""
		}
	}
	return host[:i], host[i:]
}

// parsePreview reads "<port>-<id>". An id may have hyphens, a port has none.
func parsePreview(label string) (Target, error) {
	number, id, ok := strings.Cut(label, "-")
	if !ok {
		return Target{}, ErrInvalidHost
	}
	port, ok := ParsePort(number)
	switch {
	case !ok:
		return Target{}, ErrInvalidHost
	case forbidden(port):
		return Target{}, ErrForbiddenPort
	case !ValidSandboxID(id):
		return Target{}, ErrInvalidSandboxID
	}
	return Target{SandboxID: id, Port: port}, nil
}

// previewLike reports a name whose first label is "<digits>-…".
func previewLike(name string) bool {
	i := 0
	for i < len(name) && name[i] >= '0' && name[i] <= '9' {
		i++
	}
	return i > 0 && i < len(name) && name[i] == '-'
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// clientID is what ROCK calls itself in its answers. E2B's SDKs from before 2.0
// append it to the id of a sandbox.
const clientID = "-rock"

// WithoutClientID is the target that an SDK from before 2.0 means, if it is
// another one than it says. It may be asked for only when the registry knows no
// sandbox with the whole id.
func (t Target) WithoutClientID() (Target, bool) {
	id, ok := strings.CutSuffix(t.SandboxID, clientID)
	if !ok || !ValidSandboxID(id) {
		return t, false
	}
	return Target{SandboxID: id, Port: t.Port}, true
}
