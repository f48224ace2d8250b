package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// RockError is ROCK's answer that a call of its own API has failed. The text is
// for logs: it may name what is inside the deployment.
type RockError struct {
	// Status is the HTTP status. ROCK fails with 200, too.
	Status int
	// Code is ROCK's own (rock/_codes.py): 4xxx for what the caller did wrong, 5xxx
	// for what ROCK did; 0 when it gave none.
	Code int
	Text string
}

func (e *RockError) Error() string {
	return fmt.Sprintf("ROCK answered %d, code %d: %s", e.Status, e.Code, e.Text)
}

// maxRockAnswer is the longest answer that Call reads, in bytes: one page of ROCK's
// list of sandboxes is about 1 MiB.
const maxRockAnswer = 16 << 20

var errRockAnswer = errors.New("ROCK's answer cannot be understood")

// Call makes a call of ROCK's own API in the gateway's own name and decodes the
// field "result" of the answer into result, unless that is nil. path begins behind
// /apis/envs/sandbox/v1; parts of it that came from outside must be escaped or
// checked. body is sent as JSON, nil for none.
//
// Errors: an *upstream.DialError when nothing was sent, a *RockError when ROCK has
// answered that it failed, errors of ctx and of the connection, after which nobody
// knows what ROCK has done.
func (c RoleClient) Call(ctx context.Context, method, path string, body, result any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return fmt.Errorf("writing a call of ROCK's: %w", err)
		}
	}
	opaque, query, _ := strings.Cut(path, "?")
	resp, _, err := c.Do(ctx, func() *http.Request {
		req := (&http.Request{
			Method: method,
			URL:    &url.URL{Opaque: "/apis/envs/sandbox/v1" + opaque, RawQuery: query},
			Header: http.Header{"Accept": {"application/json"}, "User-Agent": {"e2b-gateway"}},
		}).WithContext(ctx)
		if body != nil {
			req.Header["Content-Type"] = []string{"application/json"}
		}
		bufferedBody(req, content)
		return req
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxRockAnswer+1))
	switch {
	case err != nil:
		return err
	case len(answer) > maxRockAnswer:
		return fmt.Errorf("%w: it is too long", errRockAnswer)
	}
	return decodeRock(resp.StatusCode, answer, result)
}

// decodeRock reads {"status":"Success"|"Failed","message":…,"error":…,"result":…}
// (rock/actions/response.py), which comes with HTTP 200 for a failure as well.
func decodeRock(status int, answer []byte, result any) error {
	var envelope struct {
		Status  string          `json:"status"`
		Message string          `json:"message"`
		Error   string          `json:"error"`
		Result  json.RawMessage `json:"result"`
	}
	err := json.Unmarshal(bytes.TrimSpace(answer), &envelope)
	switch {
	case status != http.StatusOK, err == nil && envelope.Status == "Failed":
		failed := &RockError{Status: status, Text: envelope.Error}
		if failed.Text == "" {
			failed.Text = envelope.Message
		}
		var typed struct {
			Code int `json:"code"`
		}
		if json.Unmarshal(envelope.Result, &typed) == nil {
			failed.Code = typed.Code
		}
		return failed
	case err != nil || envelope.Status != "Success":
		return errRockAnswer
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(envelope.Result, result); err != nil {
		return fmt.Errorf("%w: its result is of another shape", errRockAnswer)
	}
	return nil
}
