package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/routing"
)

var _ routing.Extender = (*Registry)(nil)

// Extend implements routing.Extender: it sets the end of a sandbox to now and the
// sandbox's minutes, within Config.Timeout.
//
// It is a transaction. ROCK writes the whole document whenever it touches it, so what
// it writes between our reading and our writing, a timeout that its user has just
// changed, would be undone; and a key that ROCK has deleted is not made again.
func (r *Registry) Extend(ctx context.Context, route *routing.Route) error {
	if !routing.ValidSandboxID(route.SandboxID) {
		return routing.ErrInvalidSandboxID
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	key := r.cfg.TimeoutPrefix + route.SandboxID
	err := onLiving(ctx, r.client, func() error {
		return r.client.Watch(ctx, func(tx *goredis.Tx) error { return r.extend(ctx, tx, key) }, key)
	})
	if errors.Is(err, goredis.TxFailedErr) {
		err = nil // ROCK has just written it, and knows best
	}
	if err != nil && !errors.Is(err, routing.ErrGone) && !errors.Is(err, routing.ErrMalformed) && !errors.Is(err, routing.ErrUnavailable) {
		err = r.meaning(err)
	}
	r.reportExtend(err)
	return err
}

// extend reads and writes the document of a sandbox that is watched.
func (r *Registry) extend(ctx context.Context, tx *goredis.Tx, key string) error {
	document, how, err := r.readBy(ctx, tx, key)
	if err != nil {
		return err
	}
	document, ok, err := extended(document, r.cfg.Fields, time.Now())
	if err != nil || !ok {
		return err
	}
	written, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		if how == text {
			return p.Do(ctx, "SET", key, document, "XX", "KEEPTTL").Err()
		}
		return p.Do(ctx, "JSON.SET", key, "$", document, "XX").Err()
	})
	if goredis.IsExecAbortError(err) {
		// Redis refuses the transaction for what it has said to the command in it.
		err = written[0].Err()
	}
	switch {
	case errors.Is(err, goredis.Nil):
		return routing.ErrGone
	case goredis.IsReadOnlyError(err):
		discard(tx)
	}
	return err
}

// discard has the connection of a transaction closed, and not used again. go-redis does
// so by itself where a command is told READONLY, because the name that it has dialled
// may lead to another server by now, but sees only EXECABORT of a transaction (field
// report G01). It does so too with a connection on which a command ran out of time, so
// this one has none, and nothing is sent.
func discard(tx *goredis.Tx) {
	past, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	_ = tx.Ping(past).Err()
}

// reportExtend says once that Redis refuses, and once more when it has refused after it
// did not. An outage is told by lookups.
func (r *Registry) reportExtend(err error) {
	var refused goredis.Error
	switch {
	case err == nil:
		r.refusing.Store(false)
	case errors.As(err, &refused) && !r.refusing.Swap(true):
		r.log.Warn("redis: the timeout of a sandbox in use cannot be pushed back, so sandboxes may end while they are used",
			"error", r.redact(err))
	}
}
