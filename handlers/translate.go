package handlers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/routing"
)

// maxErrorBody is how much of an error answer is read to understand it, in
// bytes. A longer one is passed on unread.
const maxErrorBody = 64 << 10

// translate looks at an answer that the SDKs would read wrongly. It returns the
// failure to answer instead, or false when the answer is right as it is. The
// body of resp can still be read from its first byte.
//
// An answer that the registry does not contradict is never rewritten; what is
// no answer in the protocol of the call is always converted.
func (c *dataCall) translate(resp *http.Response) (cause.Failure, bool) {
	status := resp.StatusCode
	stream := c.proto == protocol.ConnectStream
	health := c.out.Operation.Name == healthCall
	switch {
	case !knownStatus(status):
		return cause.Failure{Cause: cause.UpstreamInvalid}, true
	case isRedirect(status):
		// FastAPI redirects paths it almost knows. No SDK expects that here,
		// and the target names an internal host.
		return c.notOffered(), true
	case stream && status < 400:
		return c.checkStream(resp)
	case c.proto == protocol.ConnectUnary && status == http.StatusOK && !c.sameType(resp):
		return cause.Failure{Cause: cause.UpstreamInvalid}, true
	case health && status >= 400, health && status == http.StatusOK && !isHealth(resp):
		return c.translateHealth(), true
	case status < 400:
		return cause.Failure{}, false
	}
	e, err := readUpstreamError(resp)
	if err != nil {
		// Nothing was sent to the client yet, so it can still be told.
		c.out.Err = err
		return c.explain(cause.Failure{Cause: cause.UpstreamReset}), true
	}
	rock := c.cluster.Mode == routing.ModeRock
	switch {
	case rock && !e.fromFramework && claimsUnreachable(status, e):
		return c.checkClaim(e, 0), true
	case rock && e.fromFramework, stream && e.fromFramework:
		return c.convertFrameworkError(status)
	case stream:
		// JS does not read the body of such an answer, and the Pythons read it
		// each in its own way: say it in the protocol.
		return cause.Failure{Cause: cause.UpstreamInvalid, Code: e.connectCode(status), Message: safeText(e.Message)}, true
	case status >= 500 && e.namesInternals:
		return cause.Failure{Cause: cause.UpstreamInvalid, Code: e.Code, Status: status}, true
	default:
		return cause.Failure{}, false
	}
}

// knownStatus reports a status that may be passed on: final, and one that
// Python's http.HTTPStatus has. The SDK raises a bare ValueError for any other.
func knownStatus(status int) bool { return status >= 200 && http.StatusText(status) != "" }

// isHealth reports an answer of envd to /health that is not 204: nothing, or
// JSON that is not ROCK's way of failing with 200.
func isHealth(resp *http.Response) bool {
	head, _, err := peek(resp)
	return err == nil && (len(head) == 0 || isJSON(resp) && !bytes.Contains(head, []byte(`"Failed"`)))
}

// isRedirect reports the statuses that send a client elsewhere. 304 does not.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// sameType reports an answer in the media type of the request, as Connect has
// it.
func (c *dataCall) sameType(resp *http.Response) bool {
	return protocol.MediaType(resp.Header.Get("Content-Type")) == protocol.MediaType(c.r.Header.Get("Content-Type"))
}

// checkStream refuses an answer to a streaming call that is no stream.
func (c *dataCall) checkStream(resp *http.Response) (cause.Failure, bool) {
	encoding := resp.Header.Get("Content-Encoding")
	if resp.StatusCode != http.StatusOK || !c.sameType(resp) || encoding != "" && encoding != "identity" {
		return cause.Failure{Cause: cause.UpstreamInvalid}, true
	}
	return cause.Failure{}, false
}

// translateHealth answers /health. ROCK says 502 both for a sandbox that does
// not run and for one whose record it failed to read, so the registry is asked.
func (c *dataCall) translateHealth() cause.Failure {
	switch now := c.lookAgain(); now {
	case cause.OK:
		return cause.Failure{Cause: cause.UpstreamUnavailable}
	case cause.SandboxGone, cause.SandboxPaused, cause.SandboxStarting, cause.ClientGone:
		return cause.Failure{Cause: now}
	default:
		return cause.Failure{Cause: cause.RegistryUnavailable}
	}
}

// convertFrameworkError gives FastAPI's own answers the shape of the call.
func (c *dataCall) convertFrameworkError(status int) (cause.Failure, bool) {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return c.notOffered(), true
	case http.StatusRequestedRangeNotSatisfiable:
		return cause.Failure{}, false // no error of the framework's, and no body
	default:
		return cause.Failure{Cause: causeOfStatus(status)}, true
	}
}

// causeOfStatus is what is left of an error whose body says nothing: a web
// server or a web framework has made it.
//
// 502 and 503 are among those of unknown outcome: such a server does not say
// whether ROCK has seen the call, and newer SDKs repeat a create on 503.
func causeOfStatus(status int) cause.Cause {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return cause.Unauthenticated
	case status == http.StatusRequestEntityTooLarge:
		return cause.TooLarge
	case status == http.StatusTooManyRequests:
		return cause.Limit
	case status == http.StatusGatewayTimeout:
		return cause.Deadline
	case status < 500:
		return cause.BadRequest
	default:
		return cause.UpstreamInvalid
	}
}

func (c *dataCall) notOffered() cause.Failure {
	return cause.Failure{Cause: cause.NotOffered, Message: c.out.Operation.Name + " is not offered by this deployment"}
}

// notRunning is how ROCK says, in every answer of its data plane, that it does
// not find the sandbox running. It comes with the code and the status of a
// missing file.
const notRunning = "sandbox is not running"

// claimsUnreachable reports an answer of ROCK that speaks of the sandbox and
// not of the call.
func claimsUnreachable(status int, e upstreamError) bool {
	switch {
	case strings.Contains(e.Message, notRunning):
		return true
	case e.Code == "unavailable":
		return true
	default:
		return status == http.StatusBadGateway || status == http.StatusServiceUnavailable
	}
}

// checkClaim holds ROCK's word that a sandbox does not run, or cannot be
// reached, against the registry. That nothing was done can be said only when
// ROCK refused the call, before the first message.
func (c *dataCall) checkClaim(e upstreamError, messages int64) cause.Failure {
	refused := messages == 0 && strings.Contains(e.Message, notRunning)
	switch now := c.lookAgain(); {
	case now == cause.SandboxGone, now == cause.SandboxPaused, now == cause.ClientGone:
		return cause.Failure{Cause: now}
	case now == cause.SandboxStarting && refused:
		return cause.Failure{Cause: now}
	case now != cause.OK && refused:
		return cause.Failure{Cause: cause.RegistryUnavailable}
	default:
		return cause.Failure{Cause: cause.UpstreamUnavailable, Message: keep(cause.UpstreamUnavailable, c.target.SandboxID, e.Message)}
	}
}

// translateEndStream is translate for the end of a stream that was under way.
func (c *dataCall) translateEndStream(payload []byte, messages int64) []byte {
	var end struct {
		Error *upstreamError `json:"error"`
	}
	if json.Unmarshal(payload, &end) != nil || end.Error == nil {
		return payload
	}
	var f cause.Failure
	switch {
	case c.cluster.Mode == routing.ModeRock && claimsUnreachable(http.StatusOK, *end.Error):
		f = c.checkClaim(*end.Error, messages)
	case !clientSide[end.Error.Code] && internals.Match(payload):
		f = cause.Failure{Cause: cause.UpstreamInvalid, Code: end.Error.Code}
	default:
		return payload
	}
	f.SandboxID = c.target.SandboxID
	c.out.End = f.Cause
	return f.EndStream()
}

// clientSide are the codes whose text speaks of what the client sent, and may
// well hold an address. That of any other comes from inside the deployment.
var clientSide = map[string]bool{
	"invalid_argument": true, "not_found": true, "already_exists": true, "permission_denied": true,
	"out_of_range": true, "failed_precondition": true, "unauthenticated": true, "unimplemented": true,
}

// keep joins the table's text and the upstream's own.
func keep(cc cause.Cause, sandboxID, upstreamText string) string {
	text := cause.Failure{Cause: cc, SandboxID: sandboxID}.Text()
	if t := safeText(upstreamText); t != "" {
		text += " (" + t + ")"
	}
	return text
}

// upstreamError is an error as ROCK or envd writes it.
type upstreamError struct {
	// Code is Connect's string code, or "" when it was a number.
	Code    string
	Message string
	// shaped: it is an object with a code and a message.
	shaped bool
	// namesInternals: the body names something that must not be shown.
	namesInternals bool
	// fromFramework: it is what FastAPI or a web server in between says on
	// its own: {"detail":…}, HTML, plain text.
	fromFramework bool
}

// UnmarshalJSON accepts both kinds of code.
func (e *upstreamError) UnmarshalJSON(b []byte) error {
	var raw struct {
		Code    json.RawMessage `json:"code"`
		Message *string         `json:"message"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	_ = json.Unmarshal(raw.Code, &e.Code)
	if raw.Message != nil {
		e.Message = *raw.Message
	}
	e.shaped = raw.Code != nil && raw.Message != nil
	return nil
}

// connectCode is the code to tell in a stream: the upstream's own, or the one
// its status stands for (Connect protocol, "Error Codes").
func (e upstreamError) connectCode(status int) string {
	if e.Code != "" {
		return e.Code
	}
	switch status {
	case http.StatusBadRequest:
		return "invalid_argument"
	case http.StatusUnauthorized:
		return "unauthenticated"
	case http.StatusForbidden:
		return "permission_denied"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusConflict:
		return "already_exists"
	case http.StatusTooManyRequests:
		return "resource_exhausted"
	case http.StatusNotImplemented:
		return "unimplemented"
	case http.StatusGatewayTimeout:
		return "deadline_exceeded"
	default:
		return "internal"
	}
}

// readUpstreamError reads the body of an error answer and puts it back. An
// encoded body is left alone: the client asked for it and can read it.
func readUpstreamError(resp *http.Response) (upstreamError, error) {
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return upstreamError{}, nil
	}
	head, more, err := peek(resp)
	if err != nil {
		return upstreamError{}, err
	}
	e := upstreamError{}
	if more {
		e.fromFramework = !isJSON(resp)
	} else if !isJSON(resp) || json.Unmarshal(head, &e) != nil || !e.shaped {
		e.fromFramework = true
	}
	e.namesInternals = internals.Match(head)
	return e, nil
}

func isJSON(resp *http.Response) bool {
	t := protocol.MediaType(resp.Header.Get("Content-Type"))
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// peekTimeout bounds the wait for the rest of an answer that is read before it
// is passed on.
const peekTimeout = 30 * time.Second

// peek reads up to maxErrorBody bytes of the body and puts them back. more
// reports that the body is longer. The error is that of an answer that was cut.
func peek(resp *http.Response) (head []byte, more bool, err error) {
	stop := time.AfterFunc(peekTimeout, func() { resp.Body.Close() })
	defer stop.Stop()
	head, err = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody+1))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return head, len(head) > maxErrorBody, err
}

// internals is what must not be shown to a client: addresses, URLs, traces.
var internals = regexp.MustCompile(`(?i)\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]+\]|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,}\b|\w+://|\w:\d{2,5}\b|traceback|\bfile "`)

// safeText is an upstream's text if it can be shown to a client, and "" if it
// names something internal.
func safeText(s string) string {
	if len(s) > 2000 || internals.MatchString(s) {
		return ""
	}
	return s
}
