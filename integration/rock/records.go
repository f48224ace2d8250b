package rock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Records is where the registry records go: alive:<id> and timeout:<id> (contract 3.3 to 3.5).
type Records interface {
	// Set replaces the whole document; doc marshals to a JSON object.
	Set(ctx context.Context, key string, doc any) error
	// Load returns the whole document, nil when there is none. Others than the cluster may have written it.
	Load(ctx context.Context, key string) (json.RawMessage, error)
	// Del removes keys; absent ones are no error.
	Del(ctx context.Context, keys ...string) error
}

// MemoryRecords keeps the documents in this process, as ROCK's own local mode does.
type MemoryRecords struct {
	mu   sync.Mutex
	docs map[string]json.RawMessage
}

// NewMemoryRecords returns an empty store.
func NewMemoryRecords() *MemoryRecords { return &MemoryRecords{docs: make(map[string]json.RawMessage)} }

// Set implements Records.
func (m *MemoryRecords) Set(_ context.Context, key string, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("rock: record %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.docs[key] = b
	return nil
}

// Load implements Records.
func (m *MemoryRecords) Load(_ context.Context, key string) (json.RawMessage, error) {
	b, _ := m.Get(key)
	return b, nil
}

// Del implements Records.
func (m *MemoryRecords) Del(_ context.Context, keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.docs, k)
	}
	return nil
}

// Get returns the document as JSON.
func (m *MemoryRecords) Get(key string) (json.RawMessage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.docs[key]
	return append(json.RawMessage(nil), b...), ok
}

// Keys returns all keys, sorted.
func (m *MemoryRecords) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]string, 0, len(m.docs))
	for k := range m.docs {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// RedisStrings writes plain JSON strings (SET), for a Redis without JSON commands.
type RedisStrings struct{ Client redis.UniversalClient }

// Set implements Records.
func (r RedisStrings) Set(ctx context.Context, key string, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("rock: record %s: %w", key, err)
	}
	return r.Client.Set(ctx, key, b, 0).Err()
}

// Load implements Records.
func (r RedisStrings) Load(ctx context.Context, key string) (json.RawMessage, error) {
	b, err := r.Client.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return b, err
}

// Del implements Records. One command a key, because two keys of a sandbox may live in different slots of a Redis Cluster.
func (r RedisStrings) Del(ctx context.Context, keys ...string) error {
	var errs []error
	for _, k := range keys {
		errs = append(errs, r.Client.Del(ctx, k).Err())
	}
	return errors.Join(errs...)
}

// RedisJSON writes JSON documents as ROCK does: JSON.SET key $ doc, JSON.DEL key $ (which removes the key). The path is spelled out
// because fakeredis, ROCK's own local mode, refuses JSON.DEL without one.
type RedisJSON struct{ Client redis.UniversalClient }

// Set implements Records.
func (r RedisJSON) Set(ctx context.Context, key string, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("rock: record %s: %w", key, err)
	}
	return r.Client.Do(ctx, "JSON.SET", key, "$", string(b)).Err()
}

// Load implements Records. The answer for a path is a list of what is found there.
func (r RedisJSON) Load(ctx context.Context, key string) (json.RawMessage, error) {
	text, err := r.Client.Do(ctx, "JSON.GET", key, "$").Text()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []json.RawMessage
	if err := json.Unmarshal([]byte(text), &found); err != nil || len(found) != 1 {
		return nil, fmt.Errorf("rock: record %s: not one document: %q", key, text)
	}
	return found[0], nil
}

// Del implements Records.
func (r RedisJSON) Del(ctx context.Context, keys ...string) error {
	var errs []error
	for _, k := range keys {
		errs = append(errs, r.Client.Do(ctx, "JSON.DEL", k, "$").Err())
	}
	return errors.Join(errs...)
}

// recordWait bounds one write to Records, so that a Redis that hangs does not hang a test for ever.
const recordWait = 5 * time.Second

// record runs one write and keeps its error, as silently as ROCK.
func (c *Cluster) record(write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(c.ctx, recordWait)
	defer cancel()
	if err := write(ctx); err != nil {
		c.mu.Lock()
		c.recordErr = err
		c.mu.Unlock()
	}
}
