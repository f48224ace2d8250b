package handlers

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// convertControl finds the failure behind an answer that is not in E2B's shape,
// or reports false when the answer may pass as it is.
func convertControl(op routing.Operation, resp *http.Response, head []byte, more bool) (cause.Failure, bool) {
	status := resp.StatusCode
	switch {
	case isRedirect(status):
		return notOffered(op), true
	case status < 300 && !bodyFits(op, resp, head):
		return unknownOutcome(cause.UpstreamInvalid), true
	case status < 300:
		return failureEnvelope(head, more)
	case status < 400:
		return unknownOutcome(cause.UpstreamInvalid), true
	case isJSON(resp) && !more && e2bShaped(head, status):
		return hideInternals(head, status)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return notOffered(op), true
	}
	switch c := causeOfStatus(status); c {
	case cause.BadRequest:
		return cause.Failure{Cause: c, Message: validationText(head)}, true
	case cause.UpstreamInvalid, cause.Deadline:
		return unknownOutcome(c), true
	default:
		return cause.Failure{Cause: c}, true
	}
}

// bodyFits reports a successful answer whose body an SDK can read: JSON, and
// there at all where the call asks for something.
func bodyFits(op routing.Operation, resp *http.Response, head []byte) bool {
	switch {
	case len(head) > 0 && !isJSON(resp):
		return false
	case op.Create:
		var created map[string]json.RawMessage
		return json.Unmarshal(head, &created) == nil && (created["sandboxID"] != nil || created["status"] != nil)
	case resp.Request != nil && resp.Request.Method == http.MethodGet:
		return len(head) > 0
	default:
		return true
	}
}

// unknownOutcome is a failure after which nobody knows what ROCK has done.
func unknownOutcome(c cause.Cause) cause.Failure {
	text := "The service failed; the outcome of this call is unknown"
	if c == cause.Deadline {
		text = "The service did not answer in time; the outcome of this call is unknown"
	}
	return cause.Failure{Cause: c, Message: text}
}

// hideInternals replaces the text of an error that names something internal.
// Below 500 the text speaks of what the client sent, and a refusal is written
// for the client: newer SDKs show its text and know it by its error_code.
func hideInternals(body []byte, status int) (cause.Failure, bool) {
	if status < 500 || !internals.Match(body) || isRefusedPause(body) {
		return cause.Failure{}, false
	}
	f := unknownOutcome(cause.UpstreamInvalid)
	f.Status = status
	return f, true
}

func notOffered(op routing.Operation) cause.Failure {
	return cause.Failure{Cause: cause.NotOffered, Message: op.Name + " is not offered by this deployment"}
}

// e2bShaped reports {"code":<status>,"message":"…"}: what the SDKs can read.
func e2bShaped(body []byte, status int) bool {
	var e struct {
		Code    *int    `json:"code"`
		Message *string `json:"message"`
	}
	return json.Unmarshal(body, &e) == nil && e.Code != nil && *e.Code == status && e.Message != nil
}

// isRefusedPause reports the answer to a pause that was not carried out (E2B
// API, Error.error_code). The gateway passes it on and never makes one.
func isRefusedPause(body []byte) bool {
	var e struct {
		ErrorCode any `json:"error_code"`
	}
	return json.Unmarshal(body, &e) == nil && e.ErrorCode == "sandbox_pause_refused"
}

// longFailure is how a failure envelope begins.
var longFailure = regexp.MustCompile(`^\s*\{\s*"status"\s*:\s*"Failed"`)

// failureEnvelope finds ROCK's way of failing with HTTP 200:
// {"status":"Failed","message":…,"error":…,"result":{"code":4000,…}}.
func failureEnvelope(head []byte, more bool) (cause.Failure, bool) {
	if !bytes.Contains(head, []byte(`"Failed"`)) {
		return cause.Failure{}, false
	}
	if more {
		// Too long to be read, so its beginning must do.
		return unknownOutcome(cause.UpstreamInvalid), longFailure.Match(head)
	}
	var e struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		Error   string `json:"error"`
		Result  *struct {
			Code int `json:"code"`
		} `json:"result"`
	}
	if json.Unmarshal(head, &e) != nil || e.Status != "Failed" {
		return cause.Failure{}, false
	}
	f := cause.Failure{Cause: cause.UpstreamInvalid, Message: "The service failed"}
	if e.Result != nil && e.Result.Code/1000 == 4 {
		f.Cause = cause.BadRequest
	}
	for _, text := range []string{e.Error, e.Message} {
		if t := safeText(text); t != "" {
			f.Message = t
			break
		}
	}
	return f, true
}

// validationText is the readable part of FastAPI's {"detail":…}.
func validationText(body []byte) string {
	var text struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &text) == nil && text.Detail != "" {
		return safeText(text.Detail)
	}
	var list struct {
		Detail []struct {
			Loc []any  `json:"loc"`
			Msg string `json:"msg"`
		} `json:"detail"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Detail) == 0 {
		return ""
	}
	first := list.Detail[0]
	text.Detail = first.Msg
	if n := len(first.Loc); n > 0 {
		if name, ok := first.Loc[n-1].(string); ok {
			text.Detail = name + ": " + first.Msg
		}
	}
	return safeText(text.Detail)
}
