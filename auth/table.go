package auth

import (
	"context"
	"fmt"
)

// Table is a Store that holds all keys in memory. It must not be changed once
// it is in use.
//
// Looking a digest up in a map takes a time that depends on the digest. That
// tells nothing of use about a key: who can choose digests must already know the
// keys that they are the digests of.
type Table map[Digest]*Key

// NewTable makes a Table. Errors name the record by its place, counted from 1,
// and its subject.
func NewTable(records []Record) (Table, error) {
	t := make(Table, len(records))
	for i := range records {
		r := &records[i]
		key, err := r.Key()
		if err != nil {
			if ValidSubject(r.Subject) {
				return nil, fmt.Errorf("key %d (of %s): %w", i+1, r.Subject, err)
			}
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if other, ok := t[key.Digest]; ok {
			return nil, fmt.Errorf("key %d (of %s): its digest is that of another key, of %s", i+1, r.Subject, other.Subject)
		}
		t[key.Digest] = key
	}
	return t, nil
}

// Lookup implements [Store].
func (t Table) Lookup(_ context.Context, digest Digest) (*Key, error) {
	if key, ok := t[digest]; ok {
		return key, nil
	}
	return nil, ErrUnknownKey
}

// Peek implements [Peeker].
func (t Table) Peek(digest Digest) *Key { return t[digest] }
