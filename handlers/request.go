package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
)

// hopByHop are the headers of an answer that end at each hop (RFC 9110 section
// 7.6.1, and the older names that software still sends). What becomes of a
// request's headers stands in auth.
var hopByHop = map[string]bool{
	"Connection":          true,
	"Proxy-Connection":    true,
	"Keep-Alive":          true,
	"Proxy-Authenticate":  true,
	"Proxy-Authorization": true,
	"Te":                  true,
	"Trailer":             true,
	"Transfer-Encoding":   true,
	"Upgrade":             true,
	// A CGI program would take it for its proxy (httpoxy).
	"Proxy": true,
}

// endToEnd copies the headers of an answer that go on to the client into dst,
// replacing what dst has under the same name, so that Date and Server are not
// doubled.
func endToEnd(dst, src http.Header) {
	named := connectionNames(src)
	for name, values := range src {
		if hopByHop[name] || named[name] {
			continue
		}
		dst[name] = values
	}
}

// forward copies the headers of a request that may go on to the next hop. What
// the gateway sets itself is set afterwards, so Connection cannot take it away.
// traced reports headers that are the caller's to check, and were not copied.
func forward(dst, src http.Header, hop auth.Hop) (traced bool) {
	named := connectionNames(src)
	for name, values := range src {
		switch hop.PassageOf(name) {
		case auth.Dropped:
			continue
		case auth.Checked:
			traced = true
			continue
		case auth.Passes:
			if named[name] {
				continue
			}
		}
		dst[name] = values
	}
	if hop == auth.Envd {
		auth.OnlyBasic(dst)
	}
	return traced
}

// answerHeaders copies the headers of an answer to the client. Location names
// hosts inside the deployment, and Retry-After promises what only an integer
// and only these statuses may: that nothing was done.
func answerHeaders(dst http.Header, resp *http.Response) {
	id := dst[HeaderRequestID] // who answers may not give the request another name than the log has
	endToEnd(dst, resp.Header)
	if id != nil {
		dst[HeaderRequestID] = id
	}
	delete(dst, "Location")
	if origins := dst[allowOrigin]; len(origins) > 1 {
		dst[allowOrigin] = origins[:1] // browsers refuse an answer with two
	}
	if after := dst.Get("Retry-After"); after != "" {
		_, err := strconv.ParseUint(after, 10, 31)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
			delete(dst, "Retry-After")
		}
	}
}

// connectionNames are the headers that Connection declares to end here.
func connectionNames(h http.Header) map[string]bool {
	var named map[string]bool
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			switch token = textproto.TrimString(token); {
			case token == "", strings.EqualFold(token, "keep-alive"), strings.EqualFold(token, "close"), strings.EqualFold(token, "upgrade"):
				// What nearly every Connection says, of headers that end here anyway.
			default:
				if named == nil {
					named = map[string]bool{}
				}
				named[textproto.CanonicalMIMEHeaderKey(token)] = true
			}
		}
	}
	return named
}

// controlHop is whom a control-plane call is sent on to.
func (g *Gateway) controlHop() auth.Hop {
	if g.opt.Access == nil {
		return auth.OpenControl
	}
	return auth.Control
}

// parts are what a request that is sent on is made of, in one piece of memory.
type parts struct {
	hop                           [1]hop
	url                           url.URL
	sandboxID, forwardedFor, host [1]string
	traceID                       [1]string
	body                          bytes.Reader
	small                         []byte // for a short body, or nil
}

// smallBody is how long a request body may be, in bytes, that has its place among the
// parts: most calls of an SDK.
const smallBody = 512

// outbound makes the request that is sent on for r. The path, the query and the
// Host stay as they came, to the byte. The body must be set by the caller. The trail
// is that of the call, if it has one.
func outbound(ctx context.Context, r *http.Request, hop auth.Hop, trail *Trail) *http.Request {
	return new(parts).outbound(ctx, r, hop, trail)
}

func (p *parts) outbound(ctx context.Context, r *http.Request, hop auth.Hop, trail *Trail) *http.Request {
	p.url = exactURL(r)
	out := (&http.Request{
		Method:     r.Method,
		URL:        &p.url,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     make(http.Header, len(r.Header)+setHere),
		Host:       r.Host,
	}).WithContext(ctx)
	if traced := forward(out.Header, r.Header, hop); hop != auth.App && (traced || trail != nil) {
		p.setTrace(out.Header, r.Header, trail)
	}
	p.setForwarded(out.Header, r)
	if _, ok := out.Header["User-Agent"]; !ok {
		// net/http would put its own name here.
		out.Header["User-Agent"] = noUserAgent
	}
	return out
}

// setHere is how many headers are set here that the client may not have sent, most of
// the time. Others that it has sent end here.
const setHere = 1

var noUserAgent = []string{""}

// exactURL keeps the request target as the client wrote it. net/url may encode
// a path differently than the client did; an opaque URL is sent as it is.
func exactURL(r *http.Request) url.URL {
	target := r.RequestURI
	if len(target) == 0 || target[0] != '/' || strings.HasPrefix(target, "//") {
		// Absolute form, or a request that never was on a wire.
		u := *r.URL
		u.Scheme, u.Host, u.User = "", "", nil
		return u
	}
	path, query, has := strings.Cut(target, "?")
	return url.URL{Opaque: path, RawQuery: query, ForceQuery: has && query == ""}
}

// pointAt addresses a request.
func pointAt(out *http.Request, scheme, lifecycle, hostport string) {
	out.URL.Scheme = scheme
	out.URL.Host = upstream.Host(lifecycle, hostport)
}

// room is memory for a body of n bytes.
func (p *parts) room(n int64) []byte {
	if n <= int64(len(p.small)) {
		return p.small[:n]
	}
	return make([]byte, n)
}

// bufferedBody makes b the body of out. It is small, so the request goes out
// in one piece, and it can be given to another address when dialling fails.
func bufferedBody(out *http.Request, b []byte) { new(parts).bufferedBody(out, b) }

func (p *parts) bufferedBody(out *http.Request, b []byte) {
	// The client has been told to go on already.
	delete(out.Header, "Expect")
	out.ContentLength = int64(len(b))
	if len(b) == 0 {
		out.Body = http.NoBody
		return
	}
	p.body.Reset(b)
	out.Body = io.NopCloser(&p.body)
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// streamedBody is a request body that is passed on while it arrives. Whoever
// sends it may close it as often as it likes; only finish ends it.
type streamedBody struct {
	body io.ReadCloser
	dog  *watchdog // hears of what the client sends
	left int64     // still to come, negative when unknown; only Read uses it
	// interrupt, if not nil, ends a Read that waits when who sends the body closes
	// it: HTTP/2's client says only then that it has lost the answer. A body of
	// which nothing was read may be sent again and is left alone. After finish it is
	// nil: the connection is the server's again.
	interrupt        func()
	interrupting     sync.Mutex // guards it, and is held while it runs
	begun, abandoned atomic.Bool
	// whole is set when all of it was read, failed when the client's side of
	// it broke.
	whole  atomic.Bool
	failed atomic.Pointer[error]
}

func (s *streamedBody) Read(p []byte) (int, error) {
	s.begun.Store(true)
	n, err := s.body.Read(p)
	s.left -= int64(n)
	s.dog.pass(n)
	switch {
	case err == io.EOF, s.left == 0:
		s.whole.Store(true)
	case err != nil && !s.abandoned.Load():
		s.failed.Store(&err)
	}
	return n, err
}

func (s *streamedBody) Close() error {
	s.interrupting.Lock()
	defer s.interrupting.Unlock()
	if s.interrupt != nil && s.begun.Load() && !s.whole.Load() {
		s.abandoned.Store(true)
		s.interrupt()
	}
	return nil
}

// abandonedBodyGrace is how long a client may go on sending a body that nobody
// wants, so that it gets to read the answer before the connection ends.
const abandonedBodyGrace = time.Second

// finish ends the body. Nobody reads it afterwards, as net/http demands of a
// handler that returns.
func (s *streamedBody) finish(control *http.ResponseController) {
	s.interrupting.Lock()
	s.interrupt = nil
	s.interrupting.Unlock()
	if !s.whole.Load() {
		// A read that waits for a silent client holds the body's lock.
		_ = control.SetReadDeadline(time.Now().Add(abandonedBodyGrace))
	}
	s.body.Close()
}

// readBody reads a small body, until the call is given up. A client that owes
// the rest of it for as long as one may that owes to read is dropped.
func (c *dataCall) readBody(b []byte) error {
	if !c.line.Tie((*bodyWait)(c)) {
		return c.line.Err()
	}
	if c.g.opt.ClientStall > 0 {
		c.line.within(ofBody, c.g.opt.ClientStall, cause.BadRequest)
	}
	_, err := io.ReadFull(c.r.Body, b)
	c.line.lift(ofBody)
	c.line.Untie()
	return err
}

// bodyWait is a call that waits for its request's body.
type bodyWait dataCall

// Cut implements [h1.Cutter].
func (c *bodyWait) Cut() { _ = c.control.SetReadDeadline(time.Unix(1, 0)) }

// bodyCut is what a client is told whose request body has no end.
var bodyCut = cause.Failure{Cause: cause.BadRequest, Message: "The request body could not be read to its end"}

// causeOfBody is what it means that the request body could not be read.
func causeOfBody(r *http.Request, err error) cause.Failure {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return cause.Failure{Cause: cause.TooLarge}
	case r.Context().Err() != nil:
		return cause.Failure{Cause: cause.ClientGone}
	default:
		return bodyCut
	}
}
