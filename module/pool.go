package module

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

// The parts that survive a reload when their options do, by [key] of those.
var (
	transports = caddy.NewUsagePool() // key -> *transport
	roles      = caddy.NewUsagePool() // key -> *role
	tables     = caddy.NewUsagePool() // key -> *routes
	stores     = caddy.NewUsagePool() // key -> *keyStore
	limiters   = caddy.NewUsagePool() // key -> *limiter
	counts     = caddy.NewUsagePool() // name of a cluster -> *counted
)

// key names a part by everything that it is made from: SHA-256 of the JSON of
// options, so that it is canonical (JSON sorts maps) and shows no secret.
func key(options ...any) (string, error) {
	b, err := json.Marshal(options)
	if err != nil {
		return "", fmt.Errorf("naming a shared part: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// leases are references to parts in pools. They are given back together, in
// reverse order, each exactly once.
type leases []func()

// lease takes a part out of its pool, or makes it. make is not called when the
// part is there.
func lease[T caddy.Destructor](l *leases, pool *caddy.UsagePool, key string, make func() (T, error)) (T, error) {
	value, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) { return make() })
	if err != nil {
		var none T
		return none, err
	}
	*l = append(*l, func() { _, _ = pool.Delete(key) })
	return value.(T), nil
}

func (l *leases) release() {
	for i := len(*l) - 1; i >= 0; i-- {
		(*l)[i]()
	}
	*l = nil
}
