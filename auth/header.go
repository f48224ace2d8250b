package auth

import (
	"errors"
	"net/http"
	"strings"
)

// What can be wrong with a header that carries a credential, before anybody
// looks at the credential.
var (
	// ErrNotSent: there is no such header.
	ErrNotSent = errors.New("the credential was not sent")
	// ErrSentTwice: there is more than one value, as several lines or joined
	// with a comma, as clients do that add a header instead of setting it. The
	// next hop might read another one than we do.
	ErrSentTwice = errors.New("the credential was sent more than once")
)

// Sole returns the one value of a header that carries a credential. No
// credential holds a comma. An empty value was sent, and is no credential.
func Sole(h http.Header, name string) (string, error) {
	switch values := h[name]; {
	case len(values) == 0:
		return "", ErrNotSent
	case len(values) > 1 || strings.IndexByte(values[0], ',') >= 0:
		return "", ErrSentTwice
	default:
		return values[0], nil
	}
}
