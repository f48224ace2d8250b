package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// completeCreate gives the body of a create the two fields that ROCK requires
// and newer SDKs leave out: metadata, and timeout in seconds. Every other byte
// stays as it is.
func completeCreate(body []byte, lifetime time.Duration) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, errCreateBody
	}
	var missing []byte
	if _, ok := fields["metadata"]; !ok {
		missing = append(missing, `"metadata":{}`...)
	}
	if _, ok := fields["timeout"]; !ok {
		if missing != nil {
			missing = append(missing, ',')
		}
		missing = append(missing, `"timeout":`...)
		missing = strconv.AppendInt(missing, int64((lifetime+time.Second-1)/time.Second), 10)
	}
	if missing == nil {
		return body, nil
	}
	if len(fields) > 0 {
		missing = append(missing, ',')
	}
	open := bytes.IndexByte(body, '{') + 1
	completed := make([]byte, 0, len(body)+len(missing))
	completed = append(completed, body[:open]...)
	completed = append(completed, missing...)
	return append(completed, body[open:]...), nil
}

var errCreateBody = errors.New("the body must be a JSON object")
