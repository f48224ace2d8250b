package routing

import (
	"context"
	"errors"
)

// Registry is where routes are looked up. It has three answers that must never
// be mistaken for each other:
//
//   - here: a Route and a nil error;
//   - gone: an error for which errors.Is(err, ErrGone) holds. Only a registry
//     that was asked and answered may say so;
//   - don't know: every other error. An outage, a timeout, a record that cannot
//     be read. The sandbox may well be alive.
//
// Lookup must return soon after ctx ends. Implementations are safe for
// concurrent use.
type Registry interface {
	Lookup(ctx context.Context, sandboxID string) (*Route, error)
}

// ErrGone says that the registry was asked and holds no such sandbox.
var ErrGone = errors.New("the registry holds no such sandbox")

// ErrUnavailable is wrapped by lookup errors that mean the registry could not
// be asked, or not in time. It is a "don't know".
var ErrUnavailable = errors.New("the registry cannot be asked")

// ErrMalformed is wrapped by lookup errors that mean a record is there but
// cannot be read. It is a "don't know" too: a broken record of a live sandbox
// must not make its user throw the sandbox away.
var ErrMalformed = errors.New("the registry's record cannot be read")

// Watcher is implemented by registries that can push changes. Watch blocks
// until ctx ends, reconnecting by itself, and calls changed with the id of
// every sandbox whose record may have changed, or with "" when anything may
// have changed (for example after a lost connection, in which changes may have
// been missed). A Watcher is an accelerator: correctness rests on the cache's
// time to live.
type Watcher interface {
	Watch(ctx context.Context, changed func(sandboxID string))
}
