package handlers

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

// classifier returns what tells the messages of a stream apart: the last one of
// a process, which says that it is over, and those that only keep the stream
// alive. It is nil for streams that have neither. operation and contentType are
// those of the call, the second without parameters.
//
// The messages of process.Process/Start and /Connect hold one event: field 1,
// and in it one of start (1), data (2), end (3), keepalive (4). Those of
// filesystem.Filesystem/WatchDir are start (1), filesystem (2) or keepalive (3)
// themselves.
func classifier(operation, contentType string) func(message []byte) envelope.Class {
	json := strings.HasSuffix(contentType, "+json")
	switch operation {
	case "process.Process/Start", "process.Process/Connect":
		if json {
			return classifyProcessJSON
		}
		return classifyProcess
	case "filesystem.Filesystem/WatchDir":
		if json {
			return classifyWatchJSON
		}
		return classifyWatch
	}
	return nil
}

func classifyProcess(message []byte) envelope.Class {
	event, ok := field(message, 1)
	if !ok {
		return envelope.Other
	}
	if _, ok := field(event, 3); ok {
		return envelope.Final
	}
	if _, ok := field(event, 4); ok {
		return envelope.Keepalive
	}
	return envelope.Other
}

func classifyWatch(message []byte) envelope.Class {
	if _, ok := field(message, 3); ok {
		return envelope.Keepalive
	}
	return envelope.Other
}

// longestKeepalive is more than a keepalive in JSON has, in bytes.
const longestKeepalive = 128

func mayBeKeepalive(message []byte) bool {
	return len(message) <= longestKeepalive && bytes.Contains(message, []byte(`"keepalive"`))
}

func classifyProcessJSON(message []byte) envelope.Class {
	if isOutputJSON(message) || !mayBeKeepalive(message) && !bytes.Contains(message, []byte(`"end"`)) {
		return envelope.Other
	}
	var m struct {
		Event struct {
			End       json.RawMessage `json:"end"`
			Keepalive json.RawMessage `json:"keepalive"`
		} `json:"event"`
	}
	switch {
	case json.Unmarshal(message, &m) != nil:
		return envelope.Other
	case isObject(m.Event.End):
		return envelope.Final
	case isObject(m.Event.Keepalive):
		return envelope.Keepalive
	}
	return envelope.Other
}

// isOutputJSON recognises nearly all messages by their first bytes: an event has
// one member, and that of output is data. To search their whole length for
// anything would cost as much as to relay them.
func isOutputJSON(message []byte) bool {
	if bytes.HasPrefix(message, []byte(`{"event":{"data":`)) {
		return true
	}
	for _, token := range [...]string{`{`, `"event"`, `:`, `{`, `"data"`} {
		for len(message) > 0 && isSpace(message[0]) {
			message = message[1:]
		}
		if len(message) < len(token) || string(message[:len(token)]) != token {
			return false
		}
		message = message[len(token):]
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func classifyWatchJSON(message []byte) envelope.Class {
	var m struct {
		Keepalive json.RawMessage `json:"keepalive"`
	}
	if mayBeKeepalive(message) && json.Unmarshal(message, &m) == nil && isObject(m.Keepalive) {
		return envelope.Keepalive
	}
	return envelope.Other
}

func isObject(v json.RawMessage) bool { return len(v) > 0 && v[0] == '{' }

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
