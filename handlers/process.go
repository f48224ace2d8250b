package handlers

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// processEnded reports whether the last message of a stream says that the
// process is over. operation and contentType are those of the request.
//
// The messages of process.Process/Start and /Connect hold one event: field 1,
// and in it one of start (1), data (2), end (3), keepalive (4).
func processEnded(operation, contentType string, message []byte) bool {
	if operation != "process.Process/Start" && operation != "process.Process/Connect" {
		return false
	}
	if strings.HasSuffix(contentType, "+proto") {
		end, ok := field(message, 1)
		if !ok {
			return false
		}
		_, ok = field(end, 3)
		return ok
	}
	if !bytes.Contains(message, []byte(`"end"`)) {
		return false
	}
	var m struct {
		Event struct {
			End json.RawMessage `json:"end"`
		} `json:"event"`
	}
	return json.Unmarshal(message, &m) == nil && len(m.Event.End) > 0 && m.Event.End[0] == '{'
}

// field finds a length-delimited field of a protobuf message.
func field(message []byte, number protowire.Number) ([]byte, bool) {
	for len(message) > 0 {
		n, typ, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil, false
		}
		message = message[size:]
		if n == number && typ == protowire.BytesType {
			v, size := protowire.ConsumeBytes(message)
			return v, size >= 0
		}
		size = protowire.ConsumeFieldValue(n, typ, message)
		if size < 0 {
			return nil, false
		}
		message = message[size:]
	}
	return nil, false
}
