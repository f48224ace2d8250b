package handlers

import (
	"context"
	"errors"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// Access is who gets in. A Gateway without it lets everybody do everything, as
// ROCK does.
type Access struct {
	// Keys knows the API keys. Required.
	Keys auth.Store
	// Tokens makes and checks the tokens of sandboxes. Nil: a sandbox's access
	// token is an API key of its owner, as with ROCK alone. Signed URLs do not
	// work then: only who has the token can check them, and stores have digests.
	Tokens *auth.Tokens
	// AllowUnowned gives every holder of a key the sandboxes whose owner is not
	// known. Default: they are nobody's.
	AllowUnowned bool
	// PublicTraffic lets everybody who knows the id of a sandbox use its ports
	// other than envd's, unless its creator wants a token asked for. Default: the
	// traffic token or the access token of the sandbox is needed.
	PublicTraffic bool
	// PrivateHealth asks for a token on /health, too. Default: as with E2B, who
	// knows an id may ask without one whether that sandbox runs.
	PrivateHealth bool
}

// subjectOf is whose sandbox it is, "" when nobody's known.
func (a *Access) subjectOf(ctx context.Context, owner routing.Owner) (string, error) {
	if owner.Subject != "" || owner.Key == [32]byte{} {
		return owner.Subject, nil
	}
	// A void key still says whose it is.
	key, err := a.Keys.Lookup(ctx, owner.Key)
	switch {
	case errors.Is(err, auth.ErrUnknownKey):
		return "", nil
	case err != nil:
		return "", err
	default:
		return key.Subject, nil
	}
}
