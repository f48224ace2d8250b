package upstream

import (
	"context"
	"sync/atomic"
	"time"
)

// DialTime is the key of a context under which an *atomic.Int64 may stand, to which
// the time is added that it took to connect for a request with that context, in
// nanoseconds. net/http may still be connecting when the request is over.
type DialTime struct{}

// timeDial begins to measure an attempt to connect, if somebody wants to know.
func timeDial(ctx context.Context) (over func()) {
	spent, ok := ctx.Value(DialTime{}).(*atomic.Int64)
	if !ok {
		return func() {}
	}
	begun := time.Now()
	return func() { spent.Add(int64(time.Since(begun))) }
}
