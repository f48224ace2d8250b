package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A signed URL gives one file of one sandbox to whoever holds it, without a
// token. Its signature is E2B's:
//
//	"v1_" base64(SHA-256(path ":" operation ":" user ":" token [":" expiration]))
//
// with the standard alphabet and no padding. The SDK makes it from the sandbox's
// access token, so it can be checked where the token can be made again, and
// nowhere else: a digest of the token is not enough.

// Parameters of a signed URL.
const (
	paramPath       = "path"
	paramUser       = "username"
	paramSignature  = "signature"
	paramExpiration = "signature_expiration"
)

// What is wrong with a signed URL.
var (
	// ErrQuery: the query can be read in more than one way.
	ErrQuery = errors.New("the query of the URL cannot be read")
	// ErrNoSignature: there is no signature.
	ErrNoSignature = errors.New("the URL is not signed")
	// ErrSignature: the signature is not one, or not of this.
	ErrSignature = errors.New("the signature of the URL is not valid")
	// ErrSignatureExpired: it was good, for all that can be said without
	// looking, until the moment that the URL names itself.
	ErrSignatureExpired = errors.New("the signature of the URL has expired")
)

// FileOperation is what a signed URL allows.
type FileOperation string

// The operations.
const (
	ReadFile  FileOperation = "read"
	WriteFile FileOperation = "write"
)

// FileOperationOf is the operation that a request to /files with this method
// needs. Only these three can be signed.
func FileOperationOf(method string) (op FileOperation, ok bool) {
	switch method {
	case http.MethodGet, http.MethodHead:
		return ReadFile, true
	case http.MethodPost:
		return WriteFile, true
	default:
		return "", false
	}
}

// SignedURL is what the query of a signed URL says. It is a credential.
type SignedURL struct {
	path, user, signature string
	expiration            string // decimal, "" for never
}

const signatureVersion = "v1_"

var signatureText = base64.RawStdEncoding

// ParseSignedURL reads the query of a signed URL at the time now. It refuses
// what another reader of the query might read differently: a parameter given
// twice, a semicolon, a number sign, a broken escape, bytes that are no UTF-8, and
// bytes that are no ASCII and not escaped: Python's servers take each of those for
// a character of Latin-1. A path is decoded once, as a form: both "+" and "%20"
// are spaces, as JavaScript's and Python's SDKs write them. The signature may hold
// a "+" as it is, because a base64 text has no spaces that it could be mistaken
// for.
//
// Errors are ErrQuery, ErrNoSignature, ErrSignature and ErrSignatureExpired. A
// URL is void from the second on that signature_expiration names, by this
// machine's clock.
func ParseSignedURL(rawQuery string, now time.Time) (SignedURL, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil || strings.ContainsFunc(rawQuery, func(c rune) bool { return c == '#' || c >= utf8.RuneSelf }) {
		return SignedURL{}, ErrQuery // not url's error: it quotes the query
	}
	for _, name := range []string{paramPath, paramUser} {
		if v := values[name]; len(v) == 1 && !utf8.ValidString(v[0]) {
			return SignedURL{}, ErrQuery
		}
	}
	var s SignedURL
	for name, into := range map[string]*string{paramPath: &s.path, paramUser: &s.user, paramSignature: &s.signature, paramExpiration: &s.expiration} {
		switch v := values[name]; len(v) {
		case 0:
		case 1:
			*into = v[0]
		default:
			return SignedURL{}, ErrSignature
		}
	}
	if !values.Has(paramSignature) {
		return SignedURL{}, ErrNoSignature
	}
	s.signature = strings.ReplaceAll(s.signature, " ", "+")
	switch {
	case len(s.signature) != len(signatureVersion)+signatureText.EncodedLen(sha256.Size):
		return SignedURL{}, ErrSignature
	case strings.Contains(s.user, ":"):
		// A path may hold ":write:", so that a link for reading that file
		// would be one for writing another, as an odd user. No user's name
		// holds a colon.
		return SignedURL{}, ErrSignature
	}
	if !values.Has(paramExpiration) {
		return s, nil
	}
	switch at, ok := unixSeconds(s.expiration); {
	case !ok:
		return SignedURL{}, ErrSignature
	case now.Unix() >= at:
		return SignedURL{}, ErrSignatureExpired
	}
	return s, nil
}

// unixSeconds reads a moment as the SDKs write it: in digits, and in one way
// only, because the text is what is signed.
func unixSeconds(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// Signed reports whether the URL was signed for the operation with an access
// token of the sandbox and its owner. It takes the same time whatever differs.
func (t *Tokens) Signed(s SignedURL, op FileOperation, sandboxID, subject string) bool {
	good := 0
	for token := range t.All(AccessToken, sandboxID, subject) {
		want := s.sign(op, token)
		good |= subtle.ConstantTimeCompare([]byte(want), []byte(s.signature))
	}
	return good == 1
}

// sign is the signature that the URL has if it was made with token.
func (s SignedURL) sign(op FileOperation, token string) string {
	text := s.path + ":" + string(op) + ":" + s.user + ":" + token
	if s.expiration != "" {
		text += ":" + s.expiration
	}
	sum := sha256.Sum256([]byte(text))
	return signatureVersion + signatureText.EncodeToString(sum[:])
}

// WithoutSignature is a query without the two parameters that are for the
// gateway alone, however their names are escaped. What is left stays as it is, to
// the byte.
func WithoutSignature(rawQuery string) string {
	if !strings.Contains(rawQuery, paramSignature) && strings.IndexByte(rawQuery, '%') < 0 {
		return rawQuery
	}
	kept := make([]string, 0, 4)
	for part := range strings.SplitSeq(rawQuery, "&") {
		if !signs(part) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// signs reports a part of a query that is one of the two parameters.
func signs(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	return name == paramSignature || name == paramExpiration
}
