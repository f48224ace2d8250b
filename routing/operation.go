package routing

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Plane is the half of the E2B API that a request belongs to.
type Plane uint8

const (
	// NoPlane is a request that is no call of the E2B API.
	NoPlane Plane = iota
	// ControlPlane creates, describes, lists and ends sandboxes.
	ControlPlane
	// DataPlane talks to envd inside one sandbox, or to an app beside it.
	DataPlane
)

// String is the plane's name in the Caddyfile and in logs.
func (p Plane) String() string {
	switch p {
	case ControlPlane:
		return "control"
	case DataPlane:
		return "data"
	default:
		return "none"
	}
}

// Role is the half of a ROCK deployment that a control-plane call goes to.
type Role uint8

const (
	// AdminRole serves the control plane, all but the list.
	AdminRole Role = iota
	// ProxyRole serves the data plane, and the list of sandboxes.
	ProxyRole
)

// Operation is one call of the E2B API, recognised by method and path.
type Operation struct {
	Plane Plane
	// Role is where a control-plane call goes.
	Role Role
	// ChangesState marks the calls after which a sandbox may be in another
	// state or at another address.
	ChangesState bool
	// Create marks the two calls that make a sandbox, CreateV2 the newer.
	Create, CreateV2 bool
	// Name is the call as its users know it, for messages and logs:
	// "Sandbox.pause", "files", "process.Process/Start". It comes from a
	// fixed list or is an RPC's path of identifiers, so it is safe to print.
	Name string
	// SandboxID is the id in a control-plane path, or "". It is not checked:
	// ValidSandboxID does that.
	SandboxID string
}

// App is what every request to a port of a sandbox other than envd's is: whatever
// its method and its path, they are the app's that listens there.
var App = Operation{Plane: DataPlane, Name: "app"}

// reservedEnvdPaths are envd's own management routes. E2B's proxy never lets
// them through and neither do we (contract of E2B's infrastructure, internal
// routes).
var reservedEnvdPaths = map[string]bool{
	"/init": true, "/freeze": true, "/unfreeze": true, "/collapse": true,
	"/fsfreeze": true, "/fsthaw": true, "/upgrade": true,
}

// Reserved reports whether the path, after decoding and cleaning, is one of
// envd's management routes.
func Reserved(decodedPath string) bool {
	if decodedPath == "" || decodedPath[0] != '/' {
		decodedPath = "/" + decodedPath
	}
	return reservedEnvdPaths[path.Clean(decodedPath)]
}

// Classify recognises a call by its method and its decoded path. A path that is
// not in its clean form (dot segments, double slashes, a slash at the end) is
// no call at all: the next hop might read it differently than we do.
func Classify(method, decodedPath string) Operation {
	if decodedPath == "" || decodedPath[0] != '/' {
		return Operation{}
	}
	for i := range pages {
		if decodedPath[1:] == pages[i] {
			return Operation{Plane: DataPlane, Name: pages[i]}
		}
	}
	if isRPC(decodedPath) {
		return Operation{Plane: DataPlane, Name: decodedPath[1:]}
	}
	if path.Clean(decodedPath) != decodedPath || !readsOneWay(decodedPath) {
		return Operation{}
	}
	return classifyControl(method, decodedPath)
}

// pages are what the data plane has besides RPCs, by their paths without the
// slash.
var pages = [...]string{"health", "files"}

// DataPaths are the paths of the data plane that are no RPC, as [ControlPaths]
// are the control plane's.
func DataPaths() []string {
	var paths []string
	for _, page := range pages {
		paths = append(paths, "/"+page)
	}
	return paths
}

// readsOneWay reports a decoded path without what some servers take for
// something else than it is: bytes that are no text, a backslash (a slash to
// some), a semicolon (the end of a segment to others), and an encoding that is
// still there after decoding (some decode twice). No call of the E2B API needs
// any of them.
func readsOneWay(decodedPath string) bool {
	for i := 0; i < len(decodedPath); i++ {
		switch c := decodedPath[i]; {
		case c < ' ', c == 0x7f, c == '\\', c == ';':
			return false
		case c == '%' && i+2 < len(decodedPath) && isHex(decodedPath[i+1]) && isHex(decodedPath[i+2]):
			return false
		}
	}
	return utf8.ValidString(decodedPath)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func classifyControl(method, p string) Operation {
	version, rest := "", p
	for _, v := range []string{"/v2", "/v3"} {
		if strings.HasPrefix(p, v+"/") {
			version, rest = v[1:], p[len(v):]
		}
	}
	first, tail, _ := strings.Cut(rest[1:], "/")
	op := Operation{Plane: ControlPlane, Role: AdminRole}
	if first == "sandboxes" {
		return classifySandboxes(op, method, version, tail)
	}
	name, ok := collections[first]
	if !ok {
		return Operation{}
	}
	op.Name = name
	return op
}

// collections are what the control plane has besides sandboxes, by the first
// segment of the path.
var collections = map[string]string{
	"snapshots":     "Sandbox.list_snapshots",
	"templates":     "Template",
	"volumes":       "Volume",
	"volumecontent": "Volume",
	"secrets":       "Secret",
	"teams":         "teams",
	"nodes":         "nodes",
	"api-keys":      "api-keys",
	"access-tokens": "access-tokens",
}

// ControlPaths are the paths of the control plane without a version, with the
// given id where they name a sandbox: one of each kind that [Classify] tells
// apart. Whatever must hold for every call is tested against them.
func ControlPaths(sandboxID string) []string {
	paths := []string{"/sandboxes", "/sandboxes/metrics", "/sandboxes/" + sandboxID, "/sandboxes/" + sandboxID + "/unknown"}
	for action := range actions {
		paths = append(paths, "/sandboxes/"+sandboxID+"/"+action)
	}
	for first := range collections {
		paths = append(paths, "/"+first, "/"+first+"/x", "/"+first+"/x/y")
	}
	slices.Sort(paths)
	return paths
}

// actions are the calls below /sandboxes/{id}/.
var actions = map[string]struct {
	name         string
	changesState bool
}{
	"timeout":   {"Sandbox.set_timeout", false},
	"refreshes": {"Sandbox.refresh", false},
	"pause":     {"Sandbox.pause", true},
	"resume":    {"Sandbox.resume", true},
	"connect":   {"Sandbox.connect", true},
	"fork":      {"Sandbox.fork", true},
	"snapshots": {"Sandbox.create_snapshot", true},
	"metrics":   {"Sandbox.get_metrics", false},
	"network":   {"Sandbox.update_network", false},
	"logs":      {"Sandbox.logs", false},
}

func classifySandboxes(op Operation, method, version, tail string) Operation {
	id, action, _ := strings.Cut(tail, "/")
	switch {
	case tail == "" && method == http.MethodGet && version != "v3":
		// It is the proxy role that has lists.
		op.Name, op.Role = "Sandbox.list", ProxyRole
	case tail == "" && method == http.MethodGet:
		op.Name = "this sandbox call"
	case tail == "":
		op.Name = "Sandbox.create"
		op.Create = method == http.MethodPost && version != "v3"
		op.CreateV2 = op.Create && version == "v2"
	case tail == "metrics":
		op.Name = "Sandbox.get_metrics"
	case action == "":
		op.SandboxID = id
		op.Name = "Sandbox.get_info"
		if method == http.MethodDelete {
			op.Name = "Sandbox.kill"
		}
	default:
		op.SandboxID = id
		op.Name = "this sandbox call"
		if known, ok := actions[action]; ok {
			op.Name, op.ChangesState = known.name, known.changesState
		}
	}
	return op
}

// isRPC reports whether p is /<package.Service>/<Method>: two segments, the
// first with at least one dot, both of identifier characters only.
func isRPC(p string) bool {
	service, method, ok := strings.Cut(p[1:], "/")
	if !ok || !isIdentifier(method) {
		return false
	}
	dots := 0
	for part := range strings.SplitSeq(service, ".") {
		if !isIdentifier(part) {
			return false
		}
		dots++
	}
	return dots > 1
}

// isIdentifier reports a protobuf identifier: letters, digits and underscores,
// not starting with a digit.
func isIdentifier(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case i > 0 && c >= '0' && c <= '9':
		default:
			return false
		}
	}
	return s != ""
}
