package auth

import (
	"errors"
	"net/http"
)

// What is wrong with a traffic token.
var (
	// ErrNoTrafficToken: there is none.
	ErrNoTrafficToken = errors.New("the traffic token was not sent")
	// ErrTrafficToken: it is not this sandbox's, or was sent more than once.
	ErrTrafficToken = errors.New("the traffic token is not valid")
)

// TrafficClaim returns the claim of the traffic token in the headers of a request
// to a port of the sandbox that is not envd's. As with Check, the caller compares
// it with the owner. Errors are ErrNoTrafficToken and ErrTrafficToken.
func (t *Tokens) TrafficClaim(h http.Header, sandboxID string) (Claim, error) {
	token, err := Sole(h, HeaderTrafficToken)
	switch {
	case errors.Is(err, ErrNotSent):
		return Claim{}, ErrNoTrafficToken
	case err != nil:
		return Claim{}, ErrTrafficToken
	}
	claim, ok := t.Check(TrafficToken, token, sandboxID)
	if !ok {
		return Claim{}, ErrTrafficToken
	}
	return claim, nil
}
