package handlers

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// finalMessage returns what recognises the last message of a stream: the one
// that says that its process is over. It is nil for streams of anything else.
// operation and contentType are those of the call, the second without
// parameters.
//
// The messages of process.Process/Start and /Connect hold one event: field 1,
// and in it one of start (1), data (2), end (3), keepalive (4).
func finalMessage(operation, contentType string) func(message []byte) bool {
	switch {
	case operation != "process.Process/Start" && operation != "process.Process/Connect":
		return nil
	case strings.HasSuffix(contentType, "+proto"):
		return protoEnd
	default:
		return jsonEnd
	}
}

func protoEnd(message []byte) bool {
	event, ok := field(message, 1)
	if !ok {
		return false
	}
	_, ok = field(event, 3)
	return ok
}

func jsonEnd(message []byte) bool {
	// Nearly all messages are output, and are not worth parsing.
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
