package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// translate looks at an answer that the SDKs would read wrongly. It returns the
// failure to answer instead, or false when the answer is right as it is. The
// body of resp can still be read from its first byte.
//
// An answer that the registry does not contradict is never rewritten; what is
// no answer in the protocol of the call is always converted.
func (c *dataCall) translate(resp *http.Response) (cause.Failure, bool) {
	status := resp.StatusCode
	stream := c.proto.Framed()
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
	case c.proto == protocol.ConnectUnary && status < 300 && c.r.Method == http.MethodPost:
		return c.checkUnary(resp)
	case health && status >= 400, health && status == http.StatusOK && !isHealth(resp):
		return c.translateHealth(), true
	case status < 400, c.r.Method == http.MethodHead:
		return cause.Failure{}, false // nothing to read
	}
	e, err := readUpstreamError(resp)
	if err != nil {
		// Nothing was sent to the client yet, so it can still be told.
		c.out.Err = err
		return c.explain(cause.Failure{Cause: cause.UpstreamReset}), true
	}
	rock := c.throughProxy()
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

// isHealth reports an answer of envd to /health that is not 204: nothing, or
// JSON that is not ROCK's way of failing with 200.
func isHealth(resp *http.Response) bool {
	head, _, err := peek(resp)
	return err == nil && (len(head) == 0 || isJSON(resp) && !bytes.Contains(head, []byte(`"Failed"`)))
}

// sameType reports an answer in the media type of the request, as Connect has
// it. gRPC lets the server name the codec where the client has not, or not, and
// gRPC-Web lets the client ask for either of its two forms.
func (c *dataCall) sameType(resp *http.Response) bool {
	answer := resp.Header.Get("Content-Type")
	p, _ := protocol.Framing(answer)
	switch c.proto {
	case protocol.GRPC:
		return p == protocol.GRPC
	case protocol.GRPCWeb, protocol.GRPCWebText:
		return p == protocol.GRPCWeb || p == protocol.GRPCWebText
	default:
		asked := c.r.Header.Get("Content-Type")
		if c.r.Method == http.MethodGet && c.r.URL.Query().Has("encoding") {
			asked = "application/" + c.r.URL.Query().Get("encoding") // Connect protocol, "Unary-Get-Request"
		}
		return protocol.MediaType(answer) == protocol.MediaType(asked)
	}
}

// checkStream refuses an answer to a streaming call that is no stream.
func (c *dataCall) checkStream(resp *http.Response) (cause.Failure, bool) {
	encoding := resp.Header.Get("Content-Encoding")
	if resp.StatusCode != http.StatusOK || !c.sameType(resp) || encoding != "" && encoding != "identity" {
		return cause.Failure{Cause: cause.UpstreamInvalid}, true
	}
	return cause.Failure{}, false
}

// checkUnary refuses an answer to a unary call in which there is no message. The
// encoding of Protobuf has an empty one, JSON has not. Of an answer that just
// ends with its connection nobody else can tell whether it was cut.
func (c *dataCall) checkUnary(resp *http.Response) (cause.Failure, bool) {
	if resp.StatusCode != http.StatusOK {
		return cause.Failure{Cause: cause.UpstreamInvalid}, true
	}
	if encoding := resp.Header.Get("Content-Encoding"); !isJSON(resp) || encoding != "" && encoding != "identity" {
		return cause.Failure{}, false
	}
	if resp.ContentLength > 0 {
		return cause.Failure{}, false
	}
	unmarked := resp.ContentLength < 0 && resp.ProtoMajor == 1 && len(resp.TransferEncoding) == 0
	most := int64(0) // one byte tells
	if unmarked {
		most = maxErrorBody
	}
	head, more, err := ahead(resp, most)
	if err == nil && unmarked && !more && !json.Valid(head) {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil:
		c.out.Err = err
		return c.explain(cause.Failure{Cause: cause.UpstreamReset}), true
	case len(head) == 0:
		return cause.Failure{Cause: cause.UpstreamInvalid}, true
	default:
		return cause.Failure{}, false
	}
}

// translateHealth answers /health. ROCK says 502 both for a sandbox that does
// not run and for one whose record it failed to read, so the registry is asked.
func (c *dataCall) translateHealth() cause.Failure {
	switch now := c.lookAgain(); now {
	case cause.OK:
		return cause.Failure{Cause: cause.UpstreamUnavailable}
	case cause.SandboxGone, cause.SandboxExpired, cause.SandboxPaused, cause.SandboxStopped, cause.SandboxStarting, cause.SandboxFailed, cause.ClientGone:
		return cause.Failure{Cause: now}
	default:
		return cause.Failure{Cause: cause.RegistryUnavailable}
	}
}

// convertFrameworkError gives FastAPI's own answers the shape of the call.
func (c *dataCall) convertFrameworkError(status int) (cause.Failure, bool) {
	switch {
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return c.notOffered(), true
	case status == http.StatusRequestedRangeNotSatisfiable && !c.proto.Framed():
		return cause.Failure{}, false // no error of the framework's, and no body
	default:
		return cause.Failure{Cause: causeOfStatus(status)}, true
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
	now := c.lookAgain()
	if now == cause.OK {
		// The record of a dying sandbox outlives its container by a moment.
		var at time.Time
		now, at = c.g.looks.whyAndWhen(c.r.Context(), c.route)
		c.learn(at)
	} else {
		c.learn(time.Now())
	}
	if now == cause.OK && refused {
		now = c.startsStill()
	}
	switch {
	case now == cause.SandboxGone, now == cause.SandboxExpired, now == cause.SandboxFailed, now == cause.SandboxPaused, now == cause.ClientGone:
		return cause.Failure{Cause: now}
	case now == cause.SandboxStopped && (refused || c.proto.Framed()), now == cause.SandboxStarting && refused:
		return cause.Failure{Cause: now}
	case now != cause.OK && refused:
		return cause.Failure{Cause: cause.RegistryUnavailable}
	default:
		return cause.Failure{Cause: cause.UpstreamUnavailable, Message: keep(cause.UpstreamUnavailable, c.target.SandboxID, e.Message)}
	}
}

// startsStill tells a sandbox that does not run yet. Registry control cannot: ROCK's E2B
// API shows it as running.
func (c *dataCall) startsStill() cause.Cause {
	switch s, err := c.g.adminOf(c.cluster).statusOf(c.r.Context(), c.target.SandboxID); {
	case err != nil || !s.pending:
		return cause.OK
	case s.failed:
		c.out.Err = errors.New(s.problem)
		return cause.SandboxFailed
	default:
		return cause.SandboxStarting
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
	case c.throughProxy() && claimsUnreachable(http.StatusOK, *end.Error):
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
