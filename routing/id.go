package routing

// MaxSandboxIDLength is the longest sandbox id that is looked up, in bytes.
// It is the longest name Kubernetes gives a pod, the longest id ROCK can make.
const MaxSandboxIDLength = 253

// ValidSandboxID reports whether id may be used as a sandbox id: 1 to
// [MaxSandboxIDLength] bytes of A-Z a-z 0-9 - _ . starting with a letter or
// a digit.
//
// That set holds every id ROCK makes (uuid4 hex, container names, pod names
// and what a caller passes as ap-sandbox-id, which becomes a container name)
// and nothing that means something to a URL path, a header, a Redis key
// pattern or a log line. Ids are case-sensitive.
func ValidSandboxID(id string) bool {
	if len(id) == 0 || len(id) > MaxSandboxIDLength {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '-' || c == '_' || c == '.'):
		default:
			return false
		}
	}
	return true
}
