package websocket

import (
	"net/http"
	"testing"
)

// Field reports K02 and M02.
func TestOnlyWebSocketIsSwitchedTo(t *testing.T) {
	for _, tc := range []struct {
		method              string
		minor               int
		length              int64
		connection, upgrade []string
		want                bool
	}{
		{"GET", 1, 0, []string{"Upgrade"}, []string{"websocket"}, true},
		{"GET", 1, 0, []string{"keep-alive, Upgrade"}, []string{"WebSocket"}, true},
		{"GET", 1, 0, []string{"keep-alive", "\tupgrade ,"}, []string{" websocket "}, true},
		{"GET", 1, 0, []string{"Upgrade, HTTP2-Settings"}, []string{"h2c"}, false},
		{"GET", 1, 0, []string{"Upgrade"}, []string{"websocket, h2c"}, false},
		{"GET", 1, 0, []string{"Upgrade"}, []string{"h2c, websocket"}, false},
		{"GET", 1, 0, []string{"Upgrade"}, []string{"websocket", "h2c"}, false},
		{"GET", 1, 0, []string{"Upgrade"}, []string{"websocket/13"}, false},
		{"GET", 1, 0, []string{"Upgrade"}, []string{"tcp"}, false},
		{"GET", 1, 0, []string{"Upgrade"}, nil, false},
		{"GET", 1, 0, []string{"close"}, []string{"websocket"}, false},
		{"GET", 1, 0, []string{"upgrades"}, []string{"websocket"}, false},
		{"GET", 1, 0, nil, []string{"websocket"}, false},
		{"GET", 0, 0, []string{"Upgrade"}, []string{"websocket"}, false},
		{"GET", 1, 5, []string{"Upgrade"}, []string{"websocket"}, false},
		{"GET", 1, -1, []string{"Upgrade"}, []string{"websocket"}, false},
		{"POST", 1, 0, []string{"Upgrade"}, []string{"websocket"}, false},
	} {
		r := &http.Request{
			Method: tc.method, ProtoMajor: 1, ProtoMinor: tc.minor, ContentLength: tc.length,
			Header: http.Header{"Connection": tc.connection, "Upgrade": tc.upgrade},
		}
		if got := Requested(r); got != tc.want {
			t.Errorf("%s HTTP/1.%d, %d bytes, Connection: %q, Upgrade: %q: %v", tc.method, tc.minor, tc.length, tc.connection, tc.upgrade, got)
		}
	}
}

func TestAnAnswerSwitchesWith101AndTheSameProtocol(t *testing.T) {
	for _, tc := range []struct {
		status  int
		upgrade string
		want    bool
	}{{101, "websocket", true}, {101, "WebSocket", true}, {101, "h2c", false}, {101, "", false}, {200, "websocket", false}} {
		resp := &http.Response{StatusCode: tc.status, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {tc.upgrade}}}
		if got := Switched(resp); got != tc.want {
			t.Errorf("%d %q: %v", tc.status, tc.upgrade, got)
		}
	}
}
