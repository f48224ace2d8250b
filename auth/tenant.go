package auth

import "net/http"

// The headers by which ROCK is told for whom it works. It believes whoever sends
// them.
const (
	headerUserID       = "X-User-Id"
	headerNamespace    = "X-Namespace"
	headerExperimentID = "X-Experiment-Id"
	headerCluster      = "X-Cluster"
)

// SetTenant makes h say that the request is the tenant's, and nothing that its
// client says of it. Proxies and servers behind us may take "_" and "." in a
// name for "-" (CGI's rule), so a client's headers go in every spelling, also
// where the tenant has no value of its own.
func SetTenant(h http.Header, t Tenant) {
	for name := range h {
		switch spelled(name) {
		case "x-user-id", "x-namespace", "x-experiment-id", "x-cluster":
			delete(h, name)
		}
	}
	for _, set := range []struct{ name, value string }{
		{headerUserID, t.UserID},
		{headerNamespace, t.Namespace},
		{headerExperimentID, t.ExperimentID},
		{headerCluster, t.Cluster},
	} {
		if set.value != "" {
			h[set.name] = []string{set.value}
		}
	}
}

// StripCaller removes from a control-plane request what shows who sent it: ROCK
// would store a key with the sandbox, and log all headers.
func StripCaller(h http.Header) {
	for name := range h {
		switch spelled(name) {
		case "x-api-key", "x-key", "xrl-authorization", "authorization", "x-access-token", "cookie":
			delete(h, name)
		}
	}
}

// spelled is a header's name in the one spelling that they are compared in.
func spelled(name string) string {
	b := []byte(name)
	for i, c := range b {
		switch {
		case c == '_' || c == '.':
			b[i] = '-'
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
