package handlers

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// convertControl finds the failure behind an answer that is not in E2B's shape,
// or reports false when the answer may pass as it is.
func convertControl(op routing.Operation, resp *http.Response, head []byte, more bool) (cause.Failure, bool) {
	status := resp.StatusCode
	switch {
	case status < 300:
		return failureEnvelope(head, more)
	case status < 400:
		return notOffered(op), true
	}
	if isJSON(resp) && !more && e2bShaped(head, status) {
		return cause.Failure{}, false
	}
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return notOffered(op), true
	case http.StatusUnauthorized, http.StatusForbidden:
		return cause.Failure{Cause: cause.Unauthenticated}, true
	case http.StatusRequestEntityTooLarge:
		return cause.Failure{Cause: cause.TooLarge}, true
	case http.StatusTooManyRequests:
		return cause.Failure{Cause: cause.Limit}, true
	case http.StatusGatewayTimeout:
		return cause.Failure{Cause: cause.Deadline, Message: "The service did not answer in time; the outcome of this call is unknown"}, true
	}
	if status < 500 {
		return cause.Failure{Cause: cause.BadRequest, Message: validationText(head)}, true
	}
	// Also for 502 and 503 of a web server in between: it does not say whether
	// ROCK has seen the call, and newer SDKs repeat a create on 503.
	return cause.Failure{Cause: cause.UpstreamInvalid, Message: "The service failed; the outcome of this call is unknown"}, true
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

// failureEnvelope finds ROCK's way of failing with HTTP 200:
// {"status":"Failed","message":…,"error":…,"result":{"code":4000,…}}.
func failureEnvelope(head []byte, more bool) (cause.Failure, bool) {
	if more || !bytes.Contains(head, []byte(`"Failed"`)) {
		return cause.Failure{}, false
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
