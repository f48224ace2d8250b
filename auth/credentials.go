package auth

import "net/http"

// Headers that carry credentials.
const (
	// HeaderAPIKey is the E2B SDK's key for the control plane.
	HeaderAPIKey = "X-Api-Key"
	// HeaderAccessToken is the E2B SDK's token for one sandbox's data plane.
	HeaderAccessToken = "X-Access-Token"
	// HeaderTrafficToken is E2B's token for the preview hosts of one sandbox.
	HeaderTrafficToken = "E2b-Traffic-Access-Token"
	// HeaderRockKey and HeaderRockAuthorization are the ROCK SDK's keys.
	HeaderRockKey           = "X-Key"
	HeaderRockAuthorization = "Xrl-Authorization"
)

// StripControlCredentials removes what is meant for the control plane from the
// headers of a request that goes on to a sandbox. A sandbox runs its user's
// code, and often somebody else's: a key that can create and end sandboxes must
// not reach it. X-Access-Token and Authorization stay, envd reads both.
func StripControlCredentials(h http.Header) {
	delete(h, HeaderAPIKey)
	delete(h, HeaderRockKey)
	delete(h, HeaderRockAuthorization)
}
