package handlers

import "testing"

func TestTheEndOfAProcessIsKnownInBothCodecs(t *testing.T) {
	const proto = "application/connect+proto"
	for _, tc := range []struct {
		operation, contentType, message string
		want                            bool
	}{
		{"process.Process/Start", stream, `{"event":{"end":{"exitCode":3,"exited":true}}}`, true},
		{"process.Process/Connect", stream, `{"event": {"end": {}}}`, true},
		{"process.Process/Start", stream, `{"event":{"data":{"stdout":"ImVuZCI="}}}`, false},
		{"process.Process/Start", stream, `{"event":{"end":null}}`, false},
		{"process.Process/Start", stream, `{"other":"end"}`, false},
		{"process.Process/Start", proto, "\x0a\x02\x1a\x00", true},                 // event { end {} }
		{"process.Process/Start", proto, "\x0a\x04\x12\x02\x0a\x00", false},        // event { data { stdout "" } }
		{"process.Process/Start", proto, "\x10\x01\x0a\x04\x1a\x02\x08\x06", true}, // an unknown field before it
		{"process.Process/Start", proto, "\x0a\xff", false},
		{"filesystem.Filesystem/WatchDir", stream, `{"event":{"end":{}}}`, false},
	} {
		final := finalMessage(tc.operation, tc.contentType)
		if got := final != nil && final([]byte(tc.message)); got != tc.want {
			t.Errorf("%s %q: %v", tc.operation, tc.message, got)
		}
	}
}
