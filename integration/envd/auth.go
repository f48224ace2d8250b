package envd

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
)

// operation is what a signed URL allows.
type operation string

const (
	readOperation  operation = "read"
	writeOperation operation = "write"
)

var (
	errUnauthorized     = errors.New("unauthorized access, please provide a valid access token or method signing if supported")
	errWrongToken       = errors.New("access token present in header but does not match")
	errMissingSignature = errors.New("missing signature query parameter")
	errWrongSignature   = errors.New("invalid signature")
	errExpiredSignature = errors.New("signature is already expired")
)

// accessToken is the secret of a secured sandbox; empty: everything is allowed.
type accessToken string

// allows reports whether a request carries the token.
func (t accessToken) allows(r *http.Request) bool {
	return t == "" || equal(string(t), r.Header.Get("X-Access-Token"))
}

// allowsFile checks a /files request: a token in the header decides alone; without one the query must hold a signature of the
// path as sent, the operation, the user as sent and, if it expires, the Unix second it does.
func (t accessToken) allowsFile(r *http.Request, query url.Values, op operation, now time.Time) error {
	if t == "" {
		return nil
	}
	if r.Header.Get("X-Access-Token") != "" {
		if !t.allows(r) {
			return errWrongToken
		}
		return nil
	}
	if !query.Has("signature") {
		return errMissingSignature
	}
	expiration := query.Get("signature_expiration")
	if !equal(t.sign(query.Get("path"), op, query.Get("username"), expiration), query.Get("signature")) {
		return errWrongSignature
	}
	if expiration == "" {
		return nil
	}
	until, err := strconv.ParseInt(expiration, 10, 64)
	if err != nil {
		return errWrongSignature
	}
	if until < now.Unix() {
		return errExpiredSignature
	}
	return nil
}

// sign makes the "v1_" signature: SHA-256 over the parts joined by colons, standard base64 without padding.
func (t accessToken) sign(path string, op operation, user, expiration string) string {
	parts := []string{path, string(op), user, string(t)}
	if expiration != "" {
		parts = append(parts, expiration)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
