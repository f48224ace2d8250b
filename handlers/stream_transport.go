package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/routing"
)

// StreamTransport makes the streams of another proxy end as those of the
// gateway do: what it returns for a streaming call of Connect is always a
// response with status 200 whose body is whole envelopes and one EndStream.
//
// It knows no registry, so it cannot tell a sandbox that is gone from a lost
// connection: it says what it knows, and no more. Everything that is not a
// streaming call of Connect goes through untouched.
type StreamTransport struct {
	Next http.RoundTripper
	// Retryable reports an error after which the proxy may try elsewhere,
	// because nothing was sent. It is returned as it is.
	Retryable func(error) bool
	// MaxHeldEnvelope is that of [Options]. Default: 1 MiB.
	MaxHeldEnvelope int
}

// RoundTrip implements http.RoundTripper. When the client has left it fails as
// Next does.
func (t *StreamTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || protocol.OfRPC(r) != protocol.ConnectStream {
		return t.Next.RoundTrip(r)
	}
	c := newProxiedCall(r)
	resp, err := t.Next.RoundTrip(c.sent)
	switch {
	case err != nil:
		defer c.end()
		if c.clientGone() || isTooLarge(err) || endedBy(c.sent.Context()) == cause.OK && t.Retryable(err) {
			return nil, err
		}
		return failedStream(r, c.causeOfLoss(err)), nil
	case resp.StatusCode == http.StatusSwitchingProtocols:
		// It is no stream any more. Its context ends with the client's.
		c.stop()
		return resp, nil
	case isStream(resp, r):
		t.repair(resp, c)
		return resp, nil
	}
	defer c.end()
	f := c.explainAnswer(resp)
	resp.Body.Close()
	if c.clientGone() {
		return nil, r.Context().Err()
	}
	return failedStream(r, f), nil
}

// proxiedCall is a streaming call on its way through a [StreamTransport].
type proxiedCall struct {
	client *http.Request // as it came
	sent   *http.Request // with a context that ends earlier, and its body noted
	body   *notedBody
	cancel context.CancelCauseFunc
	stop   func() bool // keeps the deadline from ending it
}

// newProxiedCall starts the call's deadline. end must be called when the call is
// over.
func newProxiedCall(r *http.Request) *proxiedCall {
	ctx, cancel := context.WithCancelCause(r.Context())
	c := &proxiedCall{client: r, cancel: cancel, stop: func() bool { return true }}
	// A RoundTripper leaves the request alone.
	c.sent = r.WithContext(ctx)
	c.body = noteBody(c.sent)
	if d, ok := clientDeadline(r.Header); ok {
		c.stop = time.AfterFunc(d+deadlineGrace, func() { cancel(ended{cause.Deadline}) }).Stop
	}
	return c
}

func (c *proxiedCall) end() {
	c.stop()
	c.cancel(nil)
}

// clientGone reports that the client has left.
func (c *proxiedCall) clientGone() bool { return c.body.clientGone(c.client) }

// causeOfLoss is what an error means to the call.
func (c *proxiedCall) causeOfLoss(err error) cause.Failure {
	if by := endedBy(c.sent.Context()); by != cause.OK {
		return cause.Failure{Cause: by}
	}
	return c.body.causeOfLoss(c.client, err)
}

// hasLeft reports that the client of a call whose answer has begun has left for
// certain: it has nothing more to send that its context could have ended with.
func (c *proxiedCall) hasLeft() bool {
	return c.client.Context().Err() != nil && c.body.whole.Load()
}

// causeOfCut is what it means to a call that its answer was cut. When the context
// has ended before the request did, the client has left, and nobody reads this; or it
// is silent, and its body was given up. What the body says does not tell: when the
// answer begins net/http closes it, and keeps to itself how its last read ended.
func (c *proxiedCall) causeOfCut(err error) cause.Failure {
	if c.client.Context().Err() == context.Canceled {
		return bodyCut
	}
	return c.causeOfLoss(err)
}

// isTooLarge reports a request body that is longer than the site allows. The
// server answers it by itself.
func isTooLarge(err error) bool {
	var tooLarge *http.MaxBytesError
	return errors.As(err, &tooLarge)
}

// notedBody is a request body that knows whether the client's side of it broke.
// The error of the round trip, or of the answer, does not tell.
type notedBody struct {
	io.ReadCloser
	whole  atomic.Bool // read to its end
	closed atomic.Bool
	failed atomic.Pointer[error]
	// over is closed when nothing more is to be read.
	over func()
	done chan struct{}
}

// doneGrace is how long a read of the body may go on when the call's context has
// ended. Mostly both end together, in either order, but who reads may have to wait
// for a processor.
const doneGrace = time.Second

// noteBody notes the body of r. One that is not there is left as it is:
// transports look for it.
func noteBody(r *http.Request) *notedBody {
	body := &notedBody{ReadCloser: r.Body, done: make(chan struct{})}
	body.over = sync.OnceFunc(func() { close(body.done) })
	if r.Body == nil || r.Body == http.NoBody {
		body.whole.Store(true)
		body.over()
		return body
	}
	r.Body = body
	return body
}

// Read implements io.Reader. What fails because the transport or the server has
// closed the body is not the client's doing (golang/go#40747). No such failure is a
// timeout: that is the client's also when the transport, whose call ends with it, has
// closed the body meanwhile.
func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) && (!b.closed.Load() || isTimeout(err)) {
		b.failed.Store(&err)
	}
	if err == io.EOF {
		b.whole.Store(true)
	}
	if err != nil {
		b.over()
	}
	return n, err
}

// Close implements io.Closer.
func (b *notedBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// clientGone reports that the client of a call has left that was not answered yet.
// Over HTTP/1.1 net/http ends the context of a request also when a read of its body
// has timed out; the client is silent then, but there.
func (b *notedBody) clientGone(r *http.Request) bool {
	if r.Context().Err() == nil {
		return false
	}
	grace := time.NewTimer(doneGrace)
	defer grace.Stop()
	select {
	case <-b.done:
	case <-grace.C:
	}
	failed := b.failed.Load()
	return failed == nil || !isTimeout(*failed)
}

// causeOfLoss is what an error means to the call whose body this is. A transport
// gives up a connection when it cannot read the body, so the body comes first.
func (b *notedBody) causeOfLoss(r *http.Request, err error) cause.Failure {
	if failed := b.failed.Load(); failed != nil {
		// Whoever asks knows that the client is there.
		return causeOfBody(r.WithContext(context.WithoutCancel(r.Context())), *failed)
	}
	return causeOfLoss(err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// causeOfLoss is what an error of a connection means to a call that may have
// been carried out.
func causeOfLoss(err error) cause.Failure {
	switch {
	case errors.Is(err, envelope.ErrInvalidFrame):
		return cause.Failure{Cause: cause.UpstreamInvalid}
	case errors.Is(err, envelope.ErrNoEndStream):
		return cause.Failure{Cause: cause.UpstreamEOF}
	case isTimeout(err):
		return cause.Failure{Cause: cause.UpstreamIdle}
	default:
		return cause.Failure{Cause: cause.UpstreamReset}
	}
}

// explainAnswer is what an answer means that is no stream.
func (c *proxiedCall) explainAnswer(resp *http.Response) cause.Failure {
	if resp.StatusCode < 400 {
		return cause.Failure{Cause: cause.UpstreamInvalid}
	}
	e, err := readUpstreamError(resp)
	switch {
	case err != nil:
		return c.causeOfLoss(err)
	case !e.shaped:
		return cause.Failure{Cause: causeOfStatus(resp.StatusCode)}
	default:
		return cause.Failure{Cause: cause.UpstreamInvalid, Code: e.connectCode(resp.StatusCode), Message: safeText(e.Message)}
	}
}

// failedStream is the answer to a call of which nothing was answered yet.
func failedStream(r *http.Request, f cause.Failure) *http.Response {
	f.SandboxID = sandboxIDOf(r)
	body := envelope.Append(nil, envelope.FlagEndStream, f.EndStream())
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {mediaType(r.Header)}, "Cache-Control": {"no-store"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

// boundBody is the body of an answer. The call is over when it is closed.
type boundBody struct {
	io.ReadCloser
	call *proxiedCall
}

// Close implements io.Closer.
func (b *boundBody) Close() error {
	b.call.end()
	return b.ReadCloser.Close()
}

// repair puts a body in place that ends well.
func (t *StreamTransport) repair(resp *http.Response, c *proxiedCall) {
	r := c.client
	// The end may have to be made here, so no length can be promised; and the
	// body ends before its trailers are read, which Connect has no use for.
	delete(resp.Header, "Content-Length")
	resp.ContentLength = -1
	resp.Trailer = nil
	// Newer SDKs compare the whole value.
	resp.Header.Set("Content-Type", mediaType(r.Header))
	maxHeld := t.MaxHeldEnvelope
	if maxHeld == 0 {
		maxHeld = defaultMaxHeldEnvelope
	}
	resp.Body = &envelope.Reader{
		Src:        &boundBody{resp.Body, c},
		MaxHeld:    maxHeld,
		Compressed: agreedCompression(resp),
		Classify:   classifier(routing.Classify(r.Method, r.URL.Path).Name, mediaType(r.Header)),
		// The client waits for EndStream, see [dataCall.endSoon].
		OnFinal: func() { time.AfterFunc(resultGrace, func() { c.cancel(nil) }) },
		Last: func(res envelope.Result) []byte {
			switch {
			case c.hasLeft():
				return nil // nobody is there to be told
			case res.Final:
				return envelope.Append(nil, envelope.FlagEndStream, []byte("{}"))
			}
			f := c.causeOfCut(res.ReadErr)
			f.SandboxID = sandboxIDOf(r)
			return envelope.Append(nil, envelope.FlagEndStream, f.EndStream())
		},
	}
}

// isStream reports an answer that is a stream in the media type of the call.
func isStream(resp *http.Response, r *http.Request) bool {
	encoding := resp.Header.Get("Content-Encoding")
	return resp.StatusCode == http.StatusOK && mediaType(resp.Header) == mediaType(r.Header) &&
		(encoding == "" || encoding == "identity")
}

// agreedCompression reports that messages may be compressed.
func agreedCompression(resp *http.Response) bool {
	encoding := resp.Header.Get("Connect-Content-Encoding")
	return encoding != "" && encoding != "identity"
}

func mediaType(h http.Header) string { return protocol.MediaType(h.Get("Content-Type")) }

// sandboxIDOf is the id of the sandbox that a request names, if it is one.
func sandboxIDOf(r *http.Request) string {
	if ids := r.Header[routing.HeaderSandboxID]; len(ids) == 1 && routing.ValidSandboxID(ids[0]) {
		return ids[0]
	}
	return ""
}
