// Package h1 is a client of HTTP/1.1 that costs little: it has no goroutine for a
// connection, and none for a request but one whose body must be read while its
// answer may come. Whoever calls it does the writing and the reading.
//
// It knows keys, connections and bytes. Where a key leads, and what a request or
// an answer means, is no business of this package. How an answer is parsed is the
// standard library's.
package h1

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Conn is a connection that can be used without waiting for it.
type Conn interface {
	net.Conn
	// CloseWrite ends one direction.
	CloseWrite() error
	// Buffered is how many bytes can be read without waiting and without a system
	// call.
	Buffered() int
	// Ready is Buffered after a look for more, if that is next to nothing. It is for
	// who reads.
	Ready() int
	// WriteNow writes what can be written without waiting. n may be less than
	// len(p) without an error.
	WriteNow(p []byte) (n int, err error)
	// Quiet reports that there is nothing to read: no bytes, no end, no error. If
	// it is false the connection can only be closed.
	Quiet() bool
	// Ask is WriteNow on a connection that is quiet, and fails on any other, with
	// nothing written. If it writes all of p, it waits until there is something to
	// read; what ends the wait instead is told by the next read.
	Ask(p []byte) (n int, err error)
	// WatchIdle is Quiet for somebody else than who uses the connection. It takes
	// nothing from it.
	WatchIdle() (quiet bool)
	// WatchUsed is called every second or so while the connection is in use, by
	// somebody else. It must return soon.
	WatchUsed()
}

// Config tunes a [Client]. All fields are required.
type Config struct {
	// Dial makes a connection for a key. Its error is that of RoundTrip, unless
	// ctx has ended, or the body was begun to be read for a connection that was
	// found dead then.
	Dial func(ctx context.Context, key string) (Conn, error)
	// IdleTimeout is how long an unused connection is kept.
	IdleTimeout time.Duration
	// MaxIdlePerKey is how many unused connections are kept for one key.
	MaxIdlePerKey int
	// MaxIdle is how many unused connections are kept in all. The oldest leave.
	MaxIdle int
}

// Client sends requests. It must not be copied.
type Client struct {
	dial func(ctx context.Context, key string) (Conn, error)
	pool pool
}

// New makes a Client.
func New(c Config) *Client {
	client := &Client{dial: c.Dial}
	client.pool.init(c)
	return client
}

// CloseIdle closes the connections that are not in use, and those that come out of
// use until the next request.
func (c *Client) CloseIdle() { c.pool.closeIdle() }

// Idle is how many connections there are that are not in use.
func (c *Client) Idle() int { return int(c.pool.idle.Load()) }

// RoundTrip sends a request on a connection for r.URL.Host, once: only one of which
// not a byte was written is sent on another connection. It never asks for what the
// caller has not asked for: what goes over the wire is r's method, target, Host,
// headers, body and trailers, and what frames the body. A body with GetBody is
// taken to be in memory.
//
// An answer is returned as soon as its head is there, also while the body is still
// being sent. The body of the answer must be closed; one that has not come to its
// end is cut off then. It has methods Buffered and Ready, which are those of [Conn] with
// what else was read ahead: at least some of the bytes belong to the body. After
// a switch of protocols (101) it is an io.ReadWriteCloser with CloseWrite.
//
// When the context of r ends before the answer has, the connection is closed, and
// the error is the context's cause. r.Body is closed in any case, maybe later.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &exchange{pool: &c.pool, ctx: r.Context()}
	if err := x.m.compose(r); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	for {
		on, err := c.connect(x, r.URL.Host)
		if err != nil {
			if _, begun := x.m.body.(*probedBody); begun {
				err = &bodyError{errBodyBegun} // it cannot be sent to another address either
			}
			x.m.drop()
			return nil, err
		}
		resp, err := x.on(on)
		if err != errNotSent {
			return resp, err
		}
	}
}

// connect takes a connection for x from the pool, or makes one.
func (c *Client) connect(x *exchange, key string) (*conn, error) {
	ctx := x.ctx
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for on := c.pool.get(key); on != nil; on = c.pool.get(key) {
		if x.asks(on) || on.Quiet() {
			return on, nil
		}
		c.pool.discard(on)
	}
	raw, err := c.dial(ctx, key)
	switch {
	case err == nil:
		return c.pool.add(key, raw), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return nil, err
	}
}
