package handlers

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
)

// caller is who makes a control-plane call. The nil caller is everybody, where
// access is off.
type caller struct {
	access *Access
	key    *auth.Key
	// secret is the API key itself. It is told to nobody but the caller.
	secret string
	// subject is whose sandbox the call is about, or will be. "" while that is
	// not known.
	subject string
	// cluster is where that sandbox is, or "".
	cluster string
	// private: the sandbox that the call makes has a token asked for on every port.
	private bool
}

// about is whose sandbox the call is about, "" for nobody's known.
func (c *caller) about() string {
	if c == nil {
		return ""
	}
	return c.subject
}

// name is who calls, for logs.
func (c *caller) name() string {
	if c == nil {
		return ""
	}
	return c.key.Subject
}

// admin reports a caller who may do everything with everybody's sandboxes.
func (c *caller) admin() bool { return c.key.Scopes.Has(auth.ScopeAdmin) }

// keepUncached keeps caches from giving an answer for this caller to another: no
// cache knows that X-API-Key makes a difference, as it does of Authorization.
func (c *caller) keepUncached(h http.Header) {
	if c != nil {
		h["Cache-Control"] = []string{"no-store"}
	}
}

// identify finds out who calls, from the headers alone. The second value is OK
// when somebody may use the control plane, and the refusal otherwise: the same
// for a credential that is missing, malformed, unknown, disabled or expired.
func (g *Gateway) identify(r *http.Request, keyOf func(http.Header) (string, error)) (*caller, cause.Failure, error) {
	a := g.opt.Access
	if a == nil {
		return nil, cause.Failure{}, nil
	}
	secret, err := keyOf(r.Header)
	if err != nil {
		return nil, cause.Failure{Cause: cause.BadRequest, Message: err.Error()}, err
	}
	key, err := a.known(r.Context(), secret)
	switch {
	case errors.Is(err, auth.ErrUnknownKey):
		return nil, cause.Failure{Cause: cause.Unauthenticated}, err
	case err != nil && r.Context().Err() != nil:
		return nil, cause.Failure{Cause: cause.ClientGone}, err
	case err != nil:
		return nil, cause.Failure{Cause: cause.KeysUnavailable}, err
	case !key.Scopes.Has(auth.ScopeControl):
		return nil, cause.Failure{Cause: cause.Forbidden}, nil
	}
	return &caller{access: a, key: key, secret: secret, subject: key.Subject}, cause.Failure{}, nil
}

// maxKeyLength is the longest API key, in bytes.
const maxKeyLength = 512

// known looks an API key up. It fails with auth.ErrUnknownKey for all that opens
// nothing, and with the store's error when nobody can say.
func (a *Access) known(ctx context.Context, secret string) (*auth.Key, error) {
	switch {
	case secret == "":
		return nil, errNoKey
	case len(secret) > maxKeyLength:
		return nil, auth.ErrUnknownKey
	}
	digest := auth.DigestOf(secret)
	key, err := a.Keys.Lookup(ctx, digest)
	if err != nil {
		return nil, err
	}
	if err := key.Valid(time.Now()); err != nil {
		return nil, err
	}
	// A store is trusted to have the right one, but not with this alone.
	if subtle.ConstantTimeCompare(key.Digest[:], digest[:]) != 1 {
		return nil, auth.ErrUnknownKey
	}
	return key, nil
}

// errNoKey is an unknown key of which operators are told more than clients.
var errNoKey = fmt.Errorf("no API key was sent: %w", auth.ErrUnknownKey)

// errTwoKeys is what a request is told that could be read in two ways.
var errTwoKeys = errors.New("the request must carry one API key, and once")

// e2bKey is the API key of an E2B SDK: X-API-Key, else the Bearer token in
// Authorization. SDKs that have an access token from before there were keys
// send it beside the key, where it means nothing here. "" when there is none.
func e2bKey(h http.Header) (string, error) {
	switch key, err := auth.Sole(h, auth.HeaderAPIKey); {
	case err == nil:
		return key, nil
	case !errors.Is(err, auth.ErrNotSent):
		return "", errTwoKeys
	}
	return bearer(h["Authorization"])
}

// bearer is the token in a header of the form "Bearer <token>".
func bearer(values []string) (string, error) {
	if len(values) > 1 {
		return "", errTwoKeys
	}
	for _, v := range values {
		if scheme, token, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			if token = strings.TrimLeft(token, " "); strings.Contains(token, ",") {
				return "", errTwoKeys
			}
			return token, nil
		}
	}
	return "", nil
}
