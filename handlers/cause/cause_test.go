package cause

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// every returns every cause that is told to a client.
func every() []Cause {
	var list []Cause
	for c := SandboxGone; c < causes; c++ {
		list = append(list, c)
	}
	return list
}

func TestEveryCauseHasAWholeRowAndItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	for c := OK; c < causes; c++ {
		if c.String() == "" || seen[c.String()] {
			t.Errorf("cause %d is named %q", c, c)
		}
		seen[c.String()] = true
	}
	for _, c := range every() {
		if c.Code() == "" || c.Status() == 0 || (Failure{Cause: c}).Text() == "" {
			t.Errorf("%v: code %q, status %d", c, c.Code(), c.Status())
		}
		if _, ok := grpcStatuses[c.Code()]; !ok {
			t.Errorf("%v: %q is no Connect code", c, c.Code())
		}
	}
}

// The SDKs throw a sandbox away on 502 and on unavailable.
func TestOnlyGoneIsCalledGone(t *testing.T) {
	for _, c := range every() {
		gone := c == SandboxGone || c == SandboxExpired || c == SandboxFailed
		if (c.Code() == "unavailable") != gone {
			t.Errorf("%v has code %s", c, c.Code())
		}
		// The exception is E2B's own: newer SDKs look for "port is not open".
		if c.Status() == 502 && !gone && !strings.Contains((Failure{Cause: c}).Text(), "port is not open") {
			t.Errorf("%v has status 502", c)
		}
		notRunning := gone || c == SandboxPaused || c == SandboxStopped || c == SandboxStarting
		if (c.HealthStatus() == 502) != notRunning {
			t.Errorf("%v has health status %d", c, c.HealthStatus())
		}
	}
	for _, c := range []Cause{SandboxGone, SandboxExpired, SandboxFailed} {
		if text := (Failure{Cause: c, SandboxID: "x"}).Text(); !strings.Contains(text, "was not found") {
			t.Errorf("newer SDKs look for %q in %q", "was not found", text)
		}
	}
	for _, c := range every() {
		w := httptest.NewRecorder()
		Failure{Cause: c, SandboxID: "x"}.WriteHealth(w)
		if (w.Code == 502) != strings.Contains(w.Body.String(), "was not found") {
			t.Errorf("newest Python misreads health %d %s", w.Code, w.Body)
		}
	}
}

// Contract checklist 27: Python knows only registered statuses. 70: some words
// send the JS SDK looking for a dropped connection.
func TestStatusesAndWordsAreOnesTheSDKsUnderstand(t *testing.T) {
	for _, c := range every() {
		for _, status := range []int{c.Status(), c.HealthStatus()} {
			if http.StatusText(status) == "" || status == 499 || status >= 520 {
				t.Errorf("%v has status %d", c, status)
			}
		}
		text := strings.ToLower((Failure{Cause: c, SandboxID: "x"}).Text())
		for _, word := range []string{"terminated", "network error", "network connection lost", "socket connection was closed", "%!", "%s"} {
			if strings.Contains(text, word) {
				t.Errorf("%v says %q", c, text)
			}
		}
	}
}

// Contract checklist 31: Retry-After goes with "nothing was done" only.
func TestRetryAfterIsSentOnlyWhereRepeatingIsSafe(t *testing.T) {
	for _, c := range every() {
		w := httptest.NewRecorder()
		Failure{Cause: c, SandboxID: "x"}.Write(w, protocol.Plain, "")
		after := w.Header().Get("Retry-After")
		if (w.Code == 503 || w.Code == 429) != (after != "") {
			t.Errorf("%v: status %d, Retry-After %q", c, w.Code, after)
		}
		if (w.Code >= 500 && after == "") != (w.Header().Get("Should-Retry") == "false") {
			t.Errorf("%v: status %d, Should-Retry %q", c, w.Code, w.Header().Get("Should-Retry"))
		}
	}
}

// Contract checklist 26 and 58: an object, JSON, its code equal to the status.
func TestPlainAnswersAreE2BErrorObjects(t *testing.T) {
	for _, c := range every() {
		for _, health := range []bool{false, true} {
			w := httptest.NewRecorder()
			f := Failure{Cause: c, SandboxID: "sbx-1", Port: 3000}
			if health {
				f.WriteHealth(w)
			} else {
				f.Write(w, protocol.Plain, "multipart/form-data")
			}
			var body struct {
				SandboxID string `json:"sandboxId"`
				Message   string `json:"message"`
				Port      int    `json:"port"`
				Code      int    `json:"code"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			if body.Code != w.Code || body.Message == "" || body.SandboxID != "sbx-1" || body.Port != 3000 {
				t.Errorf("%v: status %d, body %s", c, w.Code, w.Body)
			}
			if ct := w.Header().Get("Content-Type"); ct != "application/json; charset=utf-8" {
				t.Errorf("%v: %s", c, ct)
			}
		}
	}
}

func TestAStreamGetsOneEndStreamAndNothingElse(t *testing.T) {
	for _, contentType := range []string{"application/connect+json", "application/connect+proto"} {
		w := httptest.NewRecorder()
		Failure{Cause: SandboxGone, SandboxID: "sbx-1"}.Write(w, protocol.ConnectStream, contentType)
		want := envelope.Append(nil, 2, []byte(`{"error":{"code":"unavailable","message":"The sandbox sbx-1 was not found: it was killed, it expired, or it never existed"}}`))
		if w.Code != 200 || w.Body.String() != string(want) || w.Header().Get("Content-Type") != contentType {
			t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
		}
	}
}

func TestEachProtocolIsAnsweredInItsOwnWay(t *testing.T) {
	f := Failure{Cause: SandboxPaused, SandboxID: "ü-1"}
	for _, tc := range []struct {
		p           protocol.Protocol
		contentType string
		status      int
		wantType    string
		body        string
		header      http.Header
	}{
		{protocol.ConnectUnary, "application/proto", 400, "application/json", `{"code":"failed_precondition","message":"The sandbox ü-1 is paused; it must be resumed before it can be used"}`, nil},
		{protocol.GRPC, "application/grpc+proto", 200, "application/grpc+proto", "", http.Header{
			"Grpc-Status":  {"9"},
			"Grpc-Message": {"The sandbox %C3%BC-1 is paused; it must be resumed before it can be used"}}},
		{protocol.GRPCWeb, "application/grpc-web", 200, "application/grpc-web",
			"\x80\x00\x00\x00\x68grpc-status: 9\r\ngrpc-message: The sandbox %C3%BC-1 is paused; it must be resumed before it can be used\r\n", nil},
		{protocol.GRPCWebText, "application/grpc-web-text", 200, "application/grpc-web-text",
			"gAAAAGhncnBjLXN0YXR1czogOQ0KZ3JwYy1tZXNzYWdlOiBUaGUgc2FuZGJveCAlQzMlQkMtMSBpcyBwYXVzZWQ7IGl0IG11c3QgYmUgcmVzdW1lZCBiZWZvcmUgaXQgY2FuIGJlIHVzZWQNCg==", nil},
	} {
		t.Run(tc.p.String(), func(t *testing.T) {
			w := httptest.NewRecorder()
			f.Write(w, tc.p, tc.contentType)
			if w.Code != tc.status || w.Header().Get("Content-Type") != tc.wantType || w.Body.String() != tc.body {
				t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
			}
			for name := range tc.header {
				if got := w.Header().Get(name); got != tc.header.Get(name) {
					t.Errorf("%s: %q", name, got)
				}
			}
		})
	}
}

// What follows whole frames of a stream.
func TestAStreamUnderWayEndsInItsOwnProtocol(t *testing.T) {
	lost := Failure{Cause: UpstreamReset, SandboxID: "ü"}
	const message = "The connection to sandbox %C3%BC was lost; the sandbox may still be running, but the outcome of this call is unknown"
	for _, tc := range []struct {
		f       Failure
		p       protocol.Protocol
		body    string
		trailer http.Header
	}{
		{Failure{}, protocol.ConnectStream, "\x02\x00\x00\x00\x02{}", nil},
		{Failure{}, protocol.GRPC, "", http.Header{"Grpc-Status": {"0"}}},
		{Failure{}, protocol.GRPCWeb, "\x80\x00\x00\x00\x10grpc-status: 0\r\n", nil},
		{Failure{}, protocol.GRPCWebText, "gAAAABBncnBjLXN0YXR1czogMA0K", nil},
		{Failure{Cause: Drain}, protocol.ConnectStream, "\x02\x00\x00\x00\x7e" + `{"error":{"code":"aborted","message":"The gateway is restarting; the sandbox and its processes are still running, reconnect"}}`, nil},
		{lost, protocol.GRPC, "", http.Header{"Grpc-Status": {"10"}, "Grpc-Message": {message}}},
		{lost, protocol.GRPCWeb, "\x80\x00\x00\x00\x95grpc-status: 10\r\ngrpc-message: " + message + "\r\n", nil},
	} {
		body, trailer := tc.f.End(tc.p)
		if string(body) != tc.body || !reflect.DeepEqual(trailer, tc.trailer) {
			t.Errorf("%v, %v: %q %v", tc.f.Cause, tc.p, body, trailer)
		}
	}
}

func TestAWebSocketIsClosedWithTheCause(t *testing.T) {
	for _, c := range every() {
		want := uint16(1011)
		if c == Drain {
			want = 1001
		}
		f := Failure{Cause: c, SandboxID: "x"}
		if code, reason := f.WebSocketClose(); code != want || reason != f.Text() {
			t.Errorf("%v: %d %q", c, code, reason)
		}
	}
}

// Field report M18: nothing of the request is markup.
func TestAPageIsEscaped(t *testing.T) {
	w := httptest.NewRecorder()
	Failure{Cause: BadRequest, Message: "<script>alert(1)</script>"}.Write(w, protocol.Page, "")
	if strings.Contains(w.Body.String(), "<script") || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}
