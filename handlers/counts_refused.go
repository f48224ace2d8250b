package handlers

import (
	"errors"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
)

// Refused is why a credential has opened nothing. It is for operators: what clients are
// told does not tell most of them apart.
type Refused uint8

const (
	// CredentialMissing: there was none.
	CredentialMissing Refused = iota
	// CredentialWrong: it was not made here, or not for this sandbox. Of an API key:
	// nobody has it, or it is disabled or has expired.
	CredentialWrong
	// CredentialOfOtherKey: it is a token made with a key that this gateway does not have,
	// as after a rotation in which a gateway was forgotten, or an old key was taken away
	// too early.
	CredentialOfOtherKey
	// CredentialExpired: the time of a signed URL is over.
	CredentialExpired
	// CredentialTwice: the request carries several, or one in two ways.
	CredentialTwice
	// CredentialScope: it is good, but not for this.
	CredentialScope
	// CredentialUnchecked: nobody could say whether it is good.
	CredentialUnchecked

	refusals // how many there are

	// RefusedCount is the same for who has a place for each.
	RefusedCount = int(refusals)
)

var refusedNames = [refusals]string{"missing", "wrong", "other_key", "expired", "twice", "scope", "unchecked"}

// String is the reason's name in metrics.
func (r Refused) String() string { return refusedNames[r] }

// refusalOf is why the credential of a call was refused, if that is how it ended.
func refusalOf(out *Outcome) (Refused, bool) {
	is := func(err error) bool { return errors.Is(out.Err, err) }
	switch out.End {
	case cause.KeysUnavailable:
		return CredentialUnchecked, true
	case cause.Forbidden:
		return CredentialScope, true
	case cause.TrafficTokenMissing:
		return CredentialMissing, true
	case cause.BadRequest:
		return CredentialTwice, is(errTwoKeys) || is(auth.ErrSentTwice) || is(auth.ErrQuery)
	case cause.Unauthenticated, cause.TrafficTokenWrong:
	default:
		return 0, false
	}
	switch {
	case is(errNoKey), is(auth.ErrNotSent), is(auth.ErrNoSignature):
		return CredentialMissing, true
	case is(errOtherKey):
		return CredentialOfOtherKey, true
	case is(auth.ErrSignatureExpired):
		return CredentialExpired, true
	default:
		return CredentialWrong, true
	}
}
