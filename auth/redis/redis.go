// Package redis is a store of API keys in Redis, one hash for each key:
//
//	HSET e2b-gateway:key:<digest> subject alice scopes "control data" expires 2027-01-31T00:00:00Z
//
// The digest is in lower-case hexadecimal. The fields are subject, scopes (words
// with spaces or commas between them), expires (RFC 3339), disabled (true or
// false), user_id, namespace, experiment_id, cluster, streams, requests, creates,
// body and note; see [auth.Record]. A field that is none of them makes the
// record unreadable.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// DefaultPrefix stands before the digest in the name of a key's hash.
const DefaultPrefix = "e2b-gateway:key:"

// Store is an [auth.Store] that asks Redis each time.
type Store struct {
	client *redis.Client
	prefix string
}

// New returns a store of the keys at prefix. "" is [DefaultPrefix]. What client
// does not concern connections is not used. It opens no connection.
func New(client redis.Config, prefix string) (*Store, error) {
	c, err := redis.NewClient(client)
	if err != nil {
		return nil, err
	}
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return &Store{c, prefix}, nil
}

// Close closes all connections.
func (s *Store) Close() error { return s.client.Close() }

// Lookup implements [auth.Store].
func (s *Store) Lookup(ctx context.Context, digest auth.Digest) (*auth.Key, error) {
	fields, err := s.client.Hash(ctx, s.prefix+digest.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	if len(fields) == 0 {
		return nil, auth.ErrUnknownKey
	}
	record, err := parse(fields)
	if err != nil {
		return nil, fmt.Errorf("%w: its record in Redis cannot be read: %w", auth.ErrUnavailable, err)
	}
	key, err := record.KeyOf(digest)
	if err != nil {
		return nil, fmt.Errorf("%w: its record in Redis cannot be read: %w", auth.ErrUnavailable, err)
	}
	return key, nil
}

// parse reads a hash. Errors name the field and not what is in it.
func parse(fields map[string]string) (*auth.Record, error) {
	r := new(auth.Record)
	for name, value := range fields {
		var err error
		switch name {
		case "digest":
			r.Digest = value
		case "subject":
			r.Subject = value
		case "scopes":
			// Never nil: an empty field is no missing one.
			r.Scopes = append([]string{}, strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ' ' })...)
		case "expires":
			r.Expires, err = time.Parse(time.RFC3339, value)
		case "disabled":
			r.Disabled, err = strconv.ParseBool(value)
		case "user_id":
			r.Tenant.UserID = value
		case "namespace":
			r.Tenant.Namespace = value
		case "experiment_id":
			r.Tenant.ExperimentID = value
		case "cluster":
			r.Tenant.Cluster = value
		case "streams":
			r.Limits.Streams, err = strconv.Atoi(value)
		case "requests":
			r.Limits.Requests, err = strconv.ParseFloat(value, 64)
		case "creates":
			r.Limits.Creates, err = strconv.ParseFloat(value, 64)
		case "body":
			r.Limits.Body, err = strconv.ParseInt(value, 10, 64)
		case "note":
			r.Note = value
		default:
			return nil, errors.New("it has a field that is not known")
		}
		if err != nil {
			return nil, fmt.Errorf("field %s is malformed", name)
		}
	}
	return r, nil
}
