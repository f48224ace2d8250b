package routing

import (
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
)

// State is where a sandbox is in its life, as far as routing cares.
type State uint8

const (
	// StateUnknown is a record whose state is missing or not one we know. It
	// is never routed and never reported as gone.
	StateUnknown State = iota
	// StateStarting: ROCK "pending". Its record may still carry the address
	// of an earlier life, so nothing is routed by it.
	StateStarting
	// StateRunning is the only state that is routed.
	StateRunning
	// StatePaused: ROCK "stopped", "archiving" and "archived".
	StatePaused
	// StateStopped: it does not run, and nobody can say at the moment whether
	// it is paused or gone.
	StateStopped
	// StateExpired: it was stopped when its time ran out. To E2B's clients it
	// is gone: nothing of their API brings it back.
	StateExpired
	// StateDeleted: ROCK "deleted". The record says itself that it is gone.
	StateDeleted
	// StateFailed: it has failed to start, and will never run.
	StateFailed
)

// String is the state's name in logs and in the admin API.
func (s State) String() string {
	switch s {
	case StateStarting:
		return "starting"
	case StateRunning:
		return "running"
	case StatePaused:
		return "paused"
	case StateStopped:
		return "stopped"
	case StateExpired:
		return "expired"
	case StateDeleted:
		return "deleted"
	case StateFailed:
		return "failed"
	default:
		return "unknown"
	}
}

// Route is one sandbox's record, read for routing. Routes are shared by all
// requests of a sandbox and must not be changed after they are published. There may
// be a million of them in memory: its strings must not be parts of larger ones.
type Route struct {
	SandboxID string
	// Cluster is the name of the cluster whose registry holds the record.
	Cluster string
	// Lifecycle names this life of the sandbox: it changes when the sandbox
	// is restarted or moved, and never otherwise. Connections are pooled by
	// it, so that a recycled address never meets an old connection.
	Lifecycle string
	// Host is the address of the sandbox, or the zero Addr where the record
	// has none (yet) or names a host instead of an IP. Only the modes that
	// dial the sandbox itself need it.
	Host netip.Addr
	// Ports says at which ports of Host the sandbox's are.
	Ports Ports
	State State
	// PortsUnknown: the registry was not asked for Ports, and perhaps neither
	// whether the sandbox is still starting. [Cache.Map] does.
	PortsUnknown bool
	// Private: its creator wants a token asked for on every port.
	Private bool
	// Owner is whose sandbox it is, as far as its record says.
	Owner Owner
	// Problem says, for logs, why a record cannot be used in full ("host_ip
	// is not an IP address"), or why nobody knows more than that it is
	// StateStopped. Empty when nothing is wrong.
	Problem string
}

// MetadataPrefix begins the metadata keys that are the gateway's own.
const MetadataPrefix = "e2b-gateway/"

// Reserves reports a metadata key that is the gateway's own, in letters of either
// case.
func Reserves(key string) bool {
	return len(key) >= len(MetadataPrefix) && strings.EqualFold(key[:len(MetadataPrefix)], MetadataPrefix)
}

// MetadataOwner is the metadata key under which the gateway notes the owner of a
// sandbox that it creates. ROCK keeps it with the sandbox, shows it in every
// record and answer, and drops it with the sandbox, so there is no second record
// that could be lost or outlive the first. Clients can neither set nor see it.
// The value is "<subject> <digest of the creating API key>".
const MetadataOwner = "e2b-gateway/owner"

// The other notes of the gateway in a sandbox's metadata. Clients can neither set
// nor see them.
const (
	// MetadataSubject has the subject of [MetadataOwner] alone: by it ROCK can
	// list all sandboxes of one owner.
	MetadataSubject = "e2b-gateway/subject"
	// MetadataTemplate has the template id of the create, which ROCK forgets once
	// it has found the image. Without [MetadataOwner] it is not there.
	MetadataTemplate = "e2b-gateway/template"
	// MetadataTraffic makes Route.Private by being there, whatever it says. The
	// gateway writes [TrafficPrivate].
	MetadataTraffic = "e2b-gateway/traffic"
	// MetadataOnTimeout is [OnTimeoutPause], or is not there.
	MetadataOnTimeout = "e2b-gateway/on-timeout"
)

// Values of the notes.
const (
	// TrafficPrivate is for whoever reads ROCK's records.
	TrafficPrivate = "private"
	// OnTimeoutPause makes a sandbox that was stopped when its time ran out
	// StatePaused and not StateExpired.
	OnTimeoutPause = "pause"
)

// MetadataAddress is the metadata key under which ROCK shows the address of a
// sandbox. Clients cannot set it where the gateway knows owners, for registry
// control believes it, and see it only if the operator wants them to.
const MetadataAddress = "e2b.agents.kruise.io/sandbox-ip"

// Owner is whose sandbox it is. The zero Owner is nobody's known.
type Owner struct {
	// Subject is the owner that the gateway noted at the create, or "".
	Subject string
	// Key is the SHA-256 of the API key that made the sandbox, or zero.
	// Without a Subject it comes from ROCK's own record, and whose key it is
	// must be asked.
	Key [32]byte
}

// LifecycleOf makes the name of a sandbox's life from the parts of its record
// that change with it. It is 16 hexadecimal digits: FNV-1a, which is enough to
// tell the lives of one sandbox apart; it is no secret and proves nothing.
func LifecycleOf(parts ...string) string {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	const digits = 16
	s := strconv.FormatUint(h.Sum64(), 16)
	for len(s) < digits {
		s = "0" + s
	}
	return s
}
