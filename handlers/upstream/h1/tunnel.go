package h1

import (
	"context"
	"io"
	"sync/atomic"
)

// tunnel is a connection that speaks something else than HTTP now. What was read
// ahead comes first.
type tunnel struct {
	*conn
	pool   *pool
	closed atomic.Bool
}

// handOver makes the connection the caller's. From now on it outlives the context.
func (x *exchange) handOver() (io.ReadCloser, error) {
	if !x.untie() {
		x.end(false)
		return nil, context.Cause(x.ctx)
	}
	x.over.Store(true)
	x.conn.narrow()
	return &tunnel{conn: x.conn, pool: x.pool}, nil
}

func (t *tunnel) Read(p []byte) (int, error) {
	if n := t.br.Buffered(); n > 0 {
		return t.br.Read(p[:min(n, len(p))])
	}
	return t.Conn.Read(p)
}

func (t *tunnel) Close() error {
	if !t.closed.Swap(true) {
		t.pool.discard(t.conn)
	}
	return nil
}
