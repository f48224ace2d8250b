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
)

// knownStatus reports a status that may be passed on: final, and one that
// Python's http.HTTPStatus has. The SDK raises a bare ValueError for any other.
func knownStatus(status int) bool { return status >= 200 && http.StatusText(status) != "" }

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

// maxErrorBody is how much of an error answer is read to understand it, in
// bytes. A longer one is passed on unread.
const maxErrorBody = 64 << 10

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
	body := resp.Body
	stop := time.AfterFunc(peekTimeout, func() { body.Close() })
	defer stop.Stop()
	return ahead(resp, maxErrorBody)
}

// ahead is peek for any number of bytes, and for as long as the call may take.
func ahead(resp *http.Response, most int64) (head []byte, more bool, err error) {
	body := resp.Body
	var read bytes.Buffer
	read.Grow(int(min(max(resp.ContentLength, 0), most)) + bytes.MinRead) // all that it takes, where the length is known
	_, err = read.ReadFrom(io.LimitReader(body, most+1))
	head = read.Bytes()
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}
	return head, int64(len(head)) > most, err
}

// internals is what must not be shown to a client: addresses, URLs, traces.
var internals = regexp.MustCompile(`(?i)\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*\]|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,}\b|\w+://|\w:\d{3,5}\b|traceback|\bfile "`)

// safeText is an upstream's text if it can be shown to a client, and "" if it
// names something internal.
func safeText(s string) string {
	if len(s) > 2000 || internals.MatchString(s) {
		return ""
	}
	return s
}
