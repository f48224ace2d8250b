package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// rockError is ROCK's answer that a call of its own API has failed. The text is
// for logs: it may name what is inside the deployment.
type rockError struct {
	// Status is the HTTP status. ROCK fails with 200, too.
	Status int
	// Code is ROCK's own (rock/_codes.py): 4xxx for what the caller did wrong, 5xxx
	// for what ROCK did; 0 when it gave none.
	Code int
	Text string
}

func (e *rockError) Error() string {
	return fmt.Sprintf("ROCK answered %d, code %d: %s", e.Status, e.Code, e.Text)
}

// refused reports that ROCK has not carried the call out, for what the caller has
// asked for.
func (e *rockError) refused() bool { return e.Code/1000 == 4 }

// unserved reports a ROCK that does not have the call.
func (e *rockError) unserved() bool {
	return e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed
}

// maxRockAnswer is the longest answer that call reads, in bytes: one page of ROCK's
// list of sandboxes is about 1 MiB.
const maxRockAnswer = 16 << 20

var errRockAnswer = errors.New("ROCK's answer cannot be understood")

// call makes a call of ROCK's own API in the gateway's own name and decodes the
// field "result" of the answer into result, unless that is nil. path begins behind
// /apis/envs/sandbox/v1; parts of it that came from outside must be escaped or
// checked. body is sent as JSON, nil for none.
//
// Errors: an *upstream.DialError when nothing was sent, a *rockError when ROCK has
// answered that it failed, errors of ctx and of the connection, after which nobody
// knows what ROCK has done.
func (c RoleClient) call(ctx context.Context, method, path string, body, result any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return fmt.Errorf("writing a call of ROCK's: %w", err)
		}
	}
	resp, err := c.ask(ctx, method, "/apis/envs/sandbox/v1"+path, content)
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
		failed := &rockError{Status: status, Text: envelope.Error}
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
