package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/http/httpguts"
)

// errNotSent says that a connection from the pool was found dead before a byte of
// the request was written. It is not seen outside.
var errNotSent = errors.New("nothing was sent")

// exchange is one request and its answer on a connection, and the body of the answer.
// All but Close is called by one goroutine.
type exchange struct {
	pool    *pool
	conn    *conn
	ctx     context.Context // of the request
	m       message         // whoever sends it owns it
	line    Lifeline        // that the connection is tied to, see tie
	stop    func() bool     // unties it from any other context
	sending *sending        // nil when all was written at once
	werr    error           // why that failed
	keep    bool            // the connection may be used again when the answer is over
	body    io.Reader       // of the answer
	last    error           // what reading it ended with
	over    atomic.Bool     // the connection is not the exchange's any more
}

// on sends the message on a connection and returns the answer. The use of the
// connection ends with the body of the answer or an error, and so does that of the
// message, unless the error is errNotSent.
func (x *exchange) on(c *conn) (*http.Response, error) {
	x.conn = c
	err := x.m.frame()
	if err == nil && !x.tie() {
		err = context.Canceled
	}
	if err != nil {
		x.m.drop()
		x.pool.put(c)
		return nil, x.orCanceled(err)
	}
	r := x.m.req
	if err := x.write(); err != nil {
		return nil, err
	}
	resp, err := x.answer(r)
	if err != nil {
		return nil, x.failed(fmt.Errorf("no answer: %w", err))
	}
	x.keep = !resp.Close && !r.Close && resp.StatusCode >= 200
	if x.sending == nil {
		x.m = message{} // the answer may last for long, and nobody needs the request
	}
	switch {
	case switched(resp):
		resp.Body, err = x.handOver()
	case resp.Body == http.NoBody:
		x.end(x.keep)
	default:
		x.body, resp.Body = resp.Body, x
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// asks reports that Ask does all that there is to do until the answer is there. It is for
// connections from the pool: what a fresh one says unasked may be why it is closed.
func (x *exchange) asks(c *conn) bool { return c.reused && (x.m.body == nil || x.m.isInMemory()) }

// write writes what can be written without waiting. The rest is sent while the answer
// may come.
func (x *exchange) write() error {
	write := Conn.WriteNow
	if x.asks(x.conn) {
		write = Conn.Ask
	}
	n, err := write(x.conn.Conn, *x.m.wire)
	switch {
	case err != nil && n == 0 && x.conn.reused:
		x.end(false)
		x.over.Store(false) // it goes on, on another one
		return errNotSent
	case err != nil:
		x.werr = err
		x.m.drop()
		if !closedByPeer(err) {
			return x.failed(err)
		}
	case n < len(*x.m.wire) || x.m.body != nil:
		x.sending = send(x.conn, &x.m, n)
	default:
		x.m.free()
	}
	return nil
}

// answer reads up to the end of the last head of the answer to r.
func (x *exchange) answer(r *http.Request) (*http.Response, error) {
	x.conn.limit = maxHead
	x.conn.widen(r)
	for {
		resp, err := http.ReadResponse(x.conn.br, r)
		if err != nil {
			if x.conn.limit <= 0 {
				err = errHeadTooLong
			}
			return nil, err
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			x.conn.limit = math.MaxInt64
			if x.sending != nil {
				x.sending.answered(false)
			}
			return resp, nil
		}
		if err := x.interim(resp); err != nil {
			return nil, err
		}
	}
}

// interim passes on an answer that is not the last.
func (x *exchange) interim(resp *http.Response) error {
	trace := httptrace.ContextClientTrace(x.ctx)
	if x.sending != nil && resp.StatusCode == http.StatusContinue {
		x.sending.answered(true)
		if trace != nil && trace.Got100Continue != nil {
			trace.Got100Continue()
		}
	}
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	x.conn.limit = maxHead // how many there may be is up to who wants to see them
	return trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header))
}

// switched reports an answer after which the connection speaks something else.
func switched(resp *http.Response) bool {
	return resp.StatusCode == http.StatusSwitchingProtocols && resp.Header.Get("Upgrade") != "" &&
		httpguts.HeaderValuesContainsToken(resp.Header["Connection"], "Upgrade")
}

// failed ends the exchange and returns why: err, or what lies behind it.
func (x *exchange) failed(err error) error {
	x.end(false)
	werr := x.werr
	if x.sending != nil {
		werr = x.sending.why()
	}
	if werr != nil && !isEcho(werr) {
		err = werr
	}
	return x.orCanceled(err)
}

// closedByPeer reports an error of writing behind which there may be an answer: why
// nothing more is wanted. In any case there is an end.
func closedByPeer(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// isEcho reports an error of writing that says no more than that the connection is
// closed: the kernel tells why only once, and has told whoever reads.
func isEcho(err error) bool {
	return err == errNotAskedFor || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE)
}

// orCanceled is err, unless the caller wants nothing more.
func (x *exchange) orCanceled(err error) error {
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	return err
}

// end gives the connection back, to the pool if keep says so and it can be used
// again. The answer may be over before the request is: then it cannot.
func (x *exchange) end(keep bool) {
	if x.over.Swap(true) {
		return
	}
	keep = keep && x.werr == nil && x.conn.ready() == 0
	if x.sending != nil {
		keep = keep && x.sending.whole()
		x.sending.abandon()
	}
	if !x.untie() {
		keep = false
	}
	if keep {
		x.pool.put(x.conn)
	} else {
		x.pool.discard(x.conn)
	}
}

// Read reads the body of the answer.
func (x *exchange) Read(p []byte) (int, error) {
	if x.over.Load() {
		if x.last != nil {
			return 0, x.last
		}
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := x.body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		x.end(x.keep)
	default:
		err = x.failed(err)
	}
	x.last = err
	return n, err
}

// Buffered is how many bytes can be read of the connection without waiting. At least
// some of them belong to the body, or to what ends it.
func (x *exchange) Buffered() int {
	if x.over.Load() {
		return 0
	}
	return x.conn.ready()
}

// Ready is Buffered after a look for more, if that is next to nothing. Like Read it is
// for who reads the body.
func (x *exchange) Ready() int {
	if x.over.Load() {
		return 0
	}
	return x.conn.br.Buffered() + x.conn.Conn.Ready()
}

// Close cuts an answer that has not come to its end. It may be called while Read
// waits, which then fails.
func (x *exchange) Close() error {
	x.end(false)
	return nil
}
