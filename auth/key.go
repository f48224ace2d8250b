package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Digest is the SHA-256 of an API key. Stores hold digests and never keys: a
// key is 20 random bytes, so that nobody finds it from its digest, and whoever
// reads the store gets in nowhere.
type Digest [sha256.Size]byte

// DigestOf is the digest of an API key as its holder sends it.
func DigestOf(key string) Digest { return sha256.Sum256([]byte(key)) }

// ParseDigest reads 64 hexadecimal digits of either case.
func ParseDigest(s string) (d Digest, err error) {
	if len(s) != hex.EncodedLen(len(d)) {
		return Digest{}, errNoDigest
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, errNoDigest // not hex's text: it quotes what it was given
	}
	return d, nil
}

var errNoDigest = errors.New("a digest is 64 hexadecimal digits, the SHA-256 of a key")

// String is the digest in lower-case hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// KeyPrefix begins every API key that an E2B SDK accepts: it wants
// ^e2b_[0-9a-f]+$ (Python 2.34.0, api/__init__.py).
const KeyPrefix = "e2b_"

// NewKey makes an API key in the SDK's format: "e2b_" and 40 hexadecimal digits
// of randomness, as E2B's own.
func NewKey() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails, crypto/rand ends the program instead
	return KeyPrefix + hex.EncodeToString(b[:])
}

// Scopes is what the holder of a key may do.
type Scopes uint8

// The scopes. A key has ScopeControl and ScopeData unless it says otherwise.
const (
	// ScopeControl: create, list, describe and end one's own sandboxes.
	ScopeControl Scopes = 1 << iota
	// ScopeData: talk to one's own sandboxes.
	ScopeData
	// ScopeAdmin: both with everybody's sandboxes, and ROCK's native API where
	// the operator has turned it on.
	ScopeAdmin

	// DefaultScopes are those of a key that names none.
	DefaultScopes = ScopeControl | ScopeData
)

// Has reports whether every one of want is among the scopes, or the scope admin,
// which includes the others.
func (s Scopes) Has(want Scopes) bool { return s&ScopeAdmin != 0 || s&want == want }

// Tenant is how ROCK is told for whom it works: the value of one header each.
// An empty one is not sent.
type Tenant struct {
	// UserID is sent as X-User-Id. Default: none.
	UserID string `json:"user_id,omitempty"`
	// Namespace is sent as X-Namespace. Default: none.
	Namespace string `json:"namespace,omitempty"`
	// ExperimentID is sent as X-Experiment-Id. Default: none.
	ExperimentID string `json:"experiment_id,omitempty"`
	// Cluster is sent as X-Cluster. The name of a cluster here pins the key's
	// new sandboxes to it. Default: none.
	Cluster string `json:"cluster,omitempty"`
}

// Key is what a store knows of an API key. It is shared and must not be changed.
type Key struct {
	Digest Digest
	// Subject is whose key it is: 1 to 128 of A-Z a-z 0-9 . _ @ + -. Keys of
	// one subject see the same sandboxes.
	Subject string
	Scopes  Scopes
	Tenant  Tenant
	// Expires is the moment from which the key is void. Zero: never.
	Expires time.Time
	// Disabled voids the key at once.
	Disabled bool
	// Limits replace the gateway's limits for a key.
	Limits Limits
}

// Limits bound what one key, or one sandbox, may do. Zero means the gateway's
// default, a negative number no limit.
type Limits struct {
	// Streams is how many streams and WebSockets may be open at a time.
	// Default: none in the gateway's limits, the gateway's in a record.
	Streams int `json:"streams,omitempty"`
	// Requests is how many calls there may be a second; from 0.001.
	// Default: none in the gateway's limits, the gateway's in a record.
	Requests float64 `json:"requests,omitempty"`
	// Creates is how many sandboxes may be made a minute; from 0.001.
	// Default: none in the gateway's limits, the gateway's in a record.
	Creates float64 `json:"creates,omitempty"`
	// Body is the longest that one request body may be, in bytes.
	// Default: none in the gateway's limits, the gateway's in a record.
	Body int64 `json:"body,omitempty"`
}

// LowestRate and HighestRate bound Limits.Requests and Limits.Creates, where they
// are not negative or zero.
const (
	LowestRate  = 0.001
	HighestRate = 1e9
)

// Check reports a rate that is no number, or out of bounds.
func (l *Limits) Check() error {
	for _, rate := range []float64{l.Requests, l.Creates} {
		switch {
		case rate < 0, rate == 0, rate >= LowestRate && rate <= HighestRate:
		default: // also when it is no number
			return fmt.Errorf("limits: requests and creates are numbers from %v to %.0f", LowestRate, HighestRate)
		}
	}
	return nil
}

// What a store says instead of a key. Callers tell a client the same for an
// unknown, a disabled and an expired key.
var (
	// ErrUnknownKey: there is no such key, or it is void.
	ErrUnknownKey = errors.New("the API key is not known, or it is disabled or has expired")
	// ErrUnavailable: the store cannot be asked. Nobody gets in.
	ErrUnavailable = errors.New("the API keys cannot be looked up")
)

// Valid returns nil for a key that opens something at the time now, and
// ErrUnknownKey otherwise.
func (k *Key) Valid(now time.Time) error {
	if k == nil || k.Disabled || !k.Expires.IsZero() && !now.Before(k.Expires) {
		return ErrUnknownKey
	}
	return nil
}

// Store knows API keys.
type Store interface {
	// Lookup returns the key with this digest. Errors are ErrUnknownKey when
	// the store has none, and errors that wrap ErrUnavailable. A void key is
	// returned as it is: Valid tells. It is called for every request, so a
	// store that does I/O remembers its answers, for less than a second.
	Lookup(ctx context.Context, digest Digest) (*Key, error)
}

// Peeker is a Store that can say without waiting what it knows at the moment.
type Peeker interface {
	// Peek returns the key with this digest, void or not, or nil when it is
	// not known or not remembered.
	Peek(digest Digest) *Key
}

// ValidSubject reports whether s may be a Key.Subject.
func ValidSubject(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '@', c == '+', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 128
}
