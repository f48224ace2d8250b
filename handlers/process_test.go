package handlers

import (
	"testing"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

func TestTheMessagesOfStreamsAreToldApartInBothCodecs(t *testing.T) {
	const (
		proto = "application/connect+proto"
		grpc  = "application/grpc"

		other, keepalive, final = envelope.Other, envelope.Keepalive, envelope.Final
	)
	for _, tc := range []struct {
		operation, contentType, message string
		want                            envelope.Class
	}{
		{"process.Process/Start", stream, `{"event":{"end":{"exitCode":3,"exited":true}}}`, final},
		{"process.Process/Connect", stream, `{"event": {"end": {}}}`, final},
		{"process.Process/Start", stream, `{"event":{"data":{"stdout":"ImVuZCI="}}}`, other},
		{"process.Process/Start", stream, " {\n\"event\" : { \"data\": {} } }", other},
		{"process.Process/Start", stream, `{"unknown":[1],"event":{"end":{}}}`, final},
		{"process.Process/Start", stream, `{"event":{"unknown":1,"end":{}}}`, final},
		{"process.Process/Start", stream, `{"event":{"end":null}}`, other},
		{"process.Process/Start", stream, `{"other":"end"}`, other},
		{"process.Process/Start", stream, `{"event":{"keepalive":{}}}`, keepalive},
		{"process.Process/Start", stream, `{"keepalive":{}}`, other},
		{"process.Process/Start", stream, `{"event":{"keepalive":null}}`, other},
		{"process.Process/Start", proto, "\x0a\x02\x1a\x00", final},                 // event { end {} }
		{"process.Process/Start", grpc, "\x0a\x02\x1a\x00", final},                  // proto is gRPC's default
		{"process.Process/Start", proto, "\x0a\x02\x22\x00", keepalive},             // event { keepalive {} }
		{"process.Process/Start", proto, "\x0a\x04\x12\x02\x0a\x00", other},         // event { data { stdout "" } }
		{"process.Process/Start", proto, "\x10\x01\x0a\x04\x1a\x02\x08\x06", final}, // an unknown field before it
		{"process.Process/Start", proto, "\x0a\xff", other},
		{"filesystem.Filesystem/WatchDir", stream, `{"event":{"end":{}}}`, other},
		{"filesystem.Filesystem/WatchDir", stream, `{"keepalive":{}}`, keepalive},
		{"filesystem.Filesystem/WatchDir", stream, `{"filesystem":{"name":"keepalive"}}`, other},
		{"filesystem.Filesystem/WatchDir", proto, "\x1a\x00", keepalive},
		{"filesystem.Filesystem/WatchDir", proto, "\x12\x02\x0a\x00", other},
		{"filesystem.Filesystem/ListDir", stream, `{"keepalive":{}}`, other},
	} {
		classify := classifier(tc.operation, tc.contentType)
		got := other
		if classify != nil {
			got = classify([]byte(tc.message))
		}
		if got != tc.want {
			t.Errorf("%s %q: %v", tc.operation, tc.message, got)
		}
	}
}
