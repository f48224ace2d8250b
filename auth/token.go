package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// Kind is what a token opens.
type Kind string

const (
	// AccessToken opens envd in one sandbox (X-Access-Token).
	AccessToken Kind = "e2ba_"
	// TrafficToken opens the other ports of one sandbox
	// (e2b-traffic-access-token).
	TrafficToken Kind = "e2bt_"
)

// A token is text:
//
//	<kind><key id>_<base64url of owner tag and MAC, 48 characters>
//
// The owner tag is HMAC-SHA256(key, "owner" 0 subject), 12 bytes of it; the MAC
// is HMAC-SHA256(key, kind 0 sandbox id 0 owner tag), 24 bytes of it. So a token
// is good for one sandbox of one owner, it can be checked without asking anybody,
// and the same one is made again for the same sandbox. Nothing is stored.
const (
	tagSize = 12
	macSize = 24
)

var (
	tokenText  = base64.RawURLEncoding
	strictText = tokenText.Strict() // no second spelling of a token
)

// TokenKey is a secret that tokens are made with.
type TokenKey struct {
	// ID tells keys apart and is part of every token: 1 to 32 of a-z 0-9 . -.
	ID string
	// Secret is at least 32 bytes.
	Secret []byte
}

// tokenKey is a TokenKey ready for use.
type tokenKey struct {
	id   string
	macs *sync.Pool // of *macer
}

// macer makes one MAC after the other without allocating.
type macer struct {
	hash hash.Hash
	in   []byte
	sum  [sha256.Size]byte
}

// Tokens makes and checks tokens.
type Tokens struct{ keys []tokenKey }

// NewTokens returns Tokens that makes tokens with the first of keys and accepts
// those of all. To change keys without downtime, put the new one behind the old
// on every gateway, then first, and take the old one away when nothing made with
// it is needed any more.
func NewTokens(keys []TokenKey) (*Tokens, error) {
	if len(keys) == 0 {
		return nil, errors.New("at least one token key is needed")
	}
	t := new(Tokens)
	for _, k := range keys {
		switch {
		case !ValidTokenKeyID(k.ID):
			return nil, fmt.Errorf("token key id %q: 1 to 32 of a-z 0-9 . - are allowed", k.ID)
		case len(k.Secret) < MinTokenSecret:
			return nil, fmt.Errorf("token key %s has %d bytes, at least %d are needed", k.ID, len(k.Secret), MinTokenSecret)
		}
		for _, other := range t.keys {
			if other.id == k.ID {
				return nil, fmt.Errorf("token key id %s is used twice", k.ID)
			}
		}
		secret := append([]byte(nil), k.Secret...)
		t.keys = append(t.keys, tokenKey{k.ID, &sync.Pool{New: func() any { return &macer{hash: hmac.New(sha256.New, secret)} }}})
	}
	return t, nil
}

// MinTokenSecret is the least length of TokenKey.Secret, in bytes.
const MinTokenSecret = 32

// ValidTokenKeyID reports whether s may be a TokenKey.ID.
func ValidTokenKeyID(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// Mint makes the token of a sandbox and its owner.
func (t *Tokens) Mint(kind Kind, sandboxID, subject string) string {
	return t.keys[0].mint(kind, sandboxID, subject)
}

func (k *tokenKey) mint(kind Kind, sandboxID, subject string) string {
	var payload [tagSize + macSize]byte
	tag := k.tag(subject)
	mac := k.mac(kind, sandboxID, tag[:])
	copy(payload[:], tag[:])
	copy(payload[tagSize:], mac[:])
	b := make([]byte, 0, len(kind)+len(k.id)+1+tokenText.EncodedLen(len(payload)))
	b = append(b, kind...)
	b = append(b, k.id...)
	b = append(b, '_')
	return string(tokenText.AppendEncode(b, payload[:]))
}

// Claim is what a good token says: the sandbox is, or once was, its owner's.
type Claim struct {
	key *tokenKey
	tag [tagSize]byte
}

// By reports whether the token was made for this owner.
func (c Claim) By(subject string) bool {
	tag := c.key.tag(subject)
	return hmac.Equal(tag[:], c.tag[:])
}

// Check returns the claim of a token that was made here for the sandbox. It
// asks nobody, so the sandbox may be gone, and its id may be somebody else's by
// now: the caller compares the claim with the owner.
func (t *Tokens) Check(kind Kind, token, sandboxID string) (Claim, bool) {
	var payload [tagSize + macSize]byte
	id, ok := takeApart(kind, token, &payload)
	k := t.key(id)
	if !ok || k == nil {
		return Claim{}, false
	}
	c := Claim{key: k}
	copy(c.tag[:], payload[:])
	mac := k.mac(kind, sandboxID, payload[:tagSize])
	return c, hmac.Equal(mac[:], payload[tagSize:])
}

// MadeElsewhere reports what has the form of a token and names a key that is not
// among t's: so do the tokens of a key that was taken away, or that another gateway
// was given first. It is for operators, and proves nothing: anybody can write one.
func (t *Tokens) MadeElsewhere(kind Kind, token string) bool {
	var payload [tagSize + macSize]byte
	id, ok := takeApart(kind, token, &payload)
	return ok && ValidTokenKeyID(id) && t.key(id) == nil
}

// takeApart reads the form of a token.
func takeApart(kind Kind, token string, payload *[tagSize + macSize]byte) (keyID string, ok bool) {
	rest, ok := strings.CutPrefix(token, string(kind))
	if !ok {
		return "", false
	}
	keyID, text, ok := strings.Cut(rest, "_")
	if !ok || len(text) != tokenText.EncodedLen(len(payload)) {
		return "", false
	}
	n, err := strictText.Decode(payload[:], []byte(text))
	return keyID, err == nil && n == len(payload)
}

// key is the key with an id, or nil.
func (t *Tokens) key(id string) *tokenKey {
	for i := range t.keys {
		if t.keys[i].id == id {
			return &t.keys[i]
		}
	}
	return nil
}

// All calls yield with the token of the sandbox and the owner for each key, the
// one that Mint uses first, until yield returns false.
func (t *Tokens) All(kind Kind, sandboxID, subject string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range t.keys {
			if !yield(t.keys[i].mint(kind, sandboxID, subject)) {
				return
			}
		}
	}
}

func (k *tokenKey) tag(subject string) (tag [tagSize]byte) {
	sum := k.sum("owner", subject, nil)
	copy(tag[:], sum[:])
	return tag
}

func (k *tokenKey) mac(kind Kind, sandboxID string, tag []byte) (mac [macSize]byte) {
	sum := k.sum(string(kind), sandboxID, tag)
	copy(mac[:], sum[:])
	return mac
}

// sum is the MAC of the parts with a zero byte between them. None but the last
// can hold one.
func (k *tokenKey) sum(a, b string, c []byte) [sha256.Size]byte {
	m := k.macs.Get().(*macer)
	defer k.macs.Put(m)
	m.in = append(m.in[:0], a...)
	m.in = append(m.in, 0)
	m.in = append(m.in, b...)
	m.in = append(m.in, 0)
	m.in = append(m.in, c...)
	m.hash.Reset()
	m.hash.Write(m.in)
	m.hash.Sum(m.sum[:0])
	return m.sum
}
