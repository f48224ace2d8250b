package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Record is how stores write a key down. What it does not know is an error, and
// not passed over: somebody who writes "expire" wants the key to end.
type Record struct {
	// Digest is the SHA-256 of the key, 64 hexadecimal digits. Required, but
	// for stores that are asked for one digest and answer with its record.
	Digest string `json:"digest,omitempty"`
	// Subject is whose key it is: 1 to 128 of A-Z a-z 0-9 . _ @ + -. Keys of
	// one subject see the same sandboxes. Required.
	Subject string `json:"subject"`
	// Scopes are some of "control", "data" and "admin". Default: "control" and
	// "data".
	Scopes []string `json:"scopes,omitempty"`
	// Tenant is what ROCK is told in headers. Default: none.
	Tenant Tenant `json:"tenant,omitzero"`
	// Expires is the moment from which the key is void, in RFC 3339.
	// Default: never.
	Expires time.Time `json:"expires,omitzero"`
	// Disabled voids the key at once. Default: false.
	Disabled bool `json:"disabled,omitempty"`
	// Limits replace the gateway's. Default: the gateway's.
	Limits Limits `json:"limits,omitzero"`
	// Note is for people. It is not read. Default: none.
	Note string `json:"note,omitempty"`
}

// maxTenantValue is the longest value of a header of Tenant, in bytes.
const maxTenantValue = 256

// Key is the key that the record describes. Errors say which field is wrong.
// Nothing in them is what might be a key, written where its digest belongs.
func (r *Record) Key() (*Key, error) {
	digest, err := ParseDigest(r.Digest)
	if err != nil {
		if strings.HasPrefix(r.Digest, KeyPrefix) {
			return nil, ErrRawKey
		}
		return nil, fmt.Errorf("digest: %w", err)
	}
	return r.keyOf(digest)
}

// KeyOf is Key for a store that was asked for digest. A record that names
// another one is an error.
func (r *Record) KeyOf(digest Digest) (*Key, error) {
	if r.Digest != "" {
		if named, err := ParseDigest(r.Digest); err != nil || named != digest {
			return nil, errors.New("the record is that of another digest")
		}
	}
	return r.keyOf(digest)
}

// ErrRawKey: a store was given a key where a digest belongs.
var ErrRawKey = errors.New("this is an API key and not the digest of one; " +
	"e2b-gateway keys hash makes the digest. Whoever could read this place knows the key: make a new one")

func (r *Record) keyOf(digest Digest) (*Key, error) {
	if !ValidSubject(r.Subject) {
		return nil, errors.New("subject: 1 to 128 of A-Z a-z 0-9 . _ @ + - are needed")
	}
	scopes, err := ParseScopes(r.Scopes)
	if err != nil {
		return nil, fmt.Errorf("scopes: %w", err)
	}
	if err := r.Tenant.check(); err != nil {
		return nil, err
	}
	if err := r.Limits.Check(); err != nil {
		return nil, err
	}
	return &Key{
		Digest: digest, Subject: r.Subject, Scopes: scopes, Tenant: r.Tenant,
		Expires: r.Expires, Disabled: r.Disabled, Limits: r.Limits,
	}, nil
}

// scopeNames are the scopes as records write them, each at its bit.
var scopeNames = []string{"control", "data", "admin"}

// ParseScopes reads the names of scopes. Nil is [DefaultScopes], and a list
// without any an error: nobody writes that for a key that opens nothing.
func ParseScopes(names []string) (scopes Scopes, err error) {
	if names == nil {
		return DefaultScopes, nil
	}
next:
	for _, name := range names {
		for bit, known := range scopeNames {
			if name == known {
				scopes |= 1 << bit
				continue next
			}
		}
		// Not quoted: a key that slipped into a record would be in every log.
		return 0, fmt.Errorf("a scope is one of: %s", strings.Join(scopeNames, ", "))
	}
	if scopes == 0 {
		return 0, errors.New("the list is empty; leave it out for control and data, or set disabled")
	}
	return scopes, nil
}

// Names are the names of the scopes, as ParseScopes reads them.
func (s Scopes) Names() (names []string) {
	for bit, name := range scopeNames {
		if s&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// check refuses what cannot be the value of a header.
func (t *Tenant) check() error {
	for _, v := range []struct{ name, value string }{
		{"user_id", t.UserID}, {"namespace", t.Namespace}, {"experiment_id", t.ExperimentID}, {"cluster", t.Cluster},
	} {
		if len(v.value) > maxTenantValue {
			return fmt.Errorf("tenant: %s has more than %d bytes", v.name, maxTenantValue)
		}
		for i := range len(v.value) {
			if c := v.value[i]; c <= ' ' || c > '~' {
				return fmt.Errorf("tenant: %s holds a character that is no visible ASCII", v.name)
			}
		}
	}
	return nil
}

// Record is the record that describes the key.
func (k *Key) Record() Record {
	return Record{
		Digest: k.Digest.String(), Subject: k.Subject, Scopes: k.Scopes.Names(), Tenant: k.Tenant,
		Expires: k.Expires, Disabled: k.Disabled, Limits: k.Limits,
	}
}

// UnmarshalStrict reads one JSON value: unknown fields and anything after it are
// errors. They quote names and numbers of what is wrong, never a text that
// might be secret.
func UnmarshalStrict(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return plainJSONError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// plainJSONError says where JSON is wrong without quoting it: a time.Time that
// cannot be parsed is quoted whole, and so is an unknown field.
func plainJSONError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("malformed JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("field %s: a %s is needed", kind.Field, kind.Type)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON value is not complete")
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok && len(field) <= 32 && !strings.Contains(field, KeyPrefix) {
		return fmt.Errorf("unknown field %s", field)
	}
	var when *time.ParseError
	if errors.As(err, &when) || strings.Contains(err.Error(), "Time.UnmarshalJSON") {
		return errors.New("expires: a time in RFC 3339 is needed, such as 2027-01-31T00:00:00Z")
	}
	return errors.New("an unknown field, or a value that does not fit")
}
