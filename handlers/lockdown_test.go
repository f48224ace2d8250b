package handlers

import (
	"net/http"
	"testing"
)

// forged are headers that only the gateway may send.
var forged = []string{
	"X-User-Id", "X_user_id", "x.user.id", "X-NAMESPACE", "X-Experiment_Id", "X-Cluster", "X-Rock-Target-Port", "X_ROCK_TARGET_PORT",
	"Rock-Host-Ip", "rock_host_ip", "sandbox_id", "Sandbox-Id", "E2b_Sandbox_Id", "e2b.sandbox.port", "E2b-Traffic-Access-Token",
	"Proxy-Authorization", "Http2-Settings", "Cookie", "X_Api_Key", "X_Access_Token", "Content_Length", "Transfer_Encoding",
}

// upstreamOf sends a call and returns the headers that have reached ROCK.
func upstreamOf(t *testing.T, method, target string, headers ...string) http.Header {
	t.Helper()
	got := make(chan http.Header, 1)
	g := newRig(t)
	record := func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		answerWith(200, unary, `{}`)(w, r)
	}
	g.admin, g.proxy = record, record
	if r := g.call(t, method, target, unary, "{}", headers...); r.status != 200 {
		t.Fatalf("%d %q", r.status, r.body)
	}
	return <-got
}

// Field report M05.
func TestForgedHeadersReachNobody(t *testing.T) {
	var sent []string
	for _, name := range forged {
		sent = append(sent, name, "forged")
	}
	for _, target := range []string{stat, "/sandboxes/sbx-1/timeout"} {
		h := upstreamOf(t, http.MethodPost, target, sent...)
		for name, values := range h {
			for _, v := range values {
				if v == "forged" {
					t.Errorf("%s: %s reached ROCK", target, name)
				}
			}
		}
	}
}

// Field report M01.
func TestConnectionTakesNothingOfOursAway(t *testing.T) {
	h := upstreamOf(t, http.MethodPost, stat, "Connection", "", "Connection", "close, E2b-Sandbox-Id, X-Access-Token",
		"Connection", "X-Forwarded-For, authorization, x-own", "X-Access-Token", "token", "Authorization", "Basic dXNlcjo=", "X-Own", "x")
	for _, name := range []string{"E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Access-Token", "X-Forwarded-For", "Authorization"} {
		if len(h[name]) != 1 {
			t.Errorf("%s: %q", name, h[name])
		}
	}
	if h["X-Own"] != nil {
		t.Errorf("X-Own went on: %q", h["X-Own"])
	}
}

// Field report M08, contract checklist 18.
func TestOnlyBasicAuthorizationGoesToEnvd(t *testing.T) {
	if h := upstreamOf(t, http.MethodPost, stat, "Authorization", "Basic dXNlcjo="); h.Get("Authorization") != "Basic dXNlcjo=" {
		t.Errorf("%q", h["Authorization"])
	}
	if h := upstreamOf(t, http.MethodPost, stat, "Authorization", "Bearer key"); h["Authorization"] != nil {
		t.Errorf("%q", h["Authorization"])
	}
}

// ROCK keeps the caller's key with the sandbox when the gateway asks for none.
func TestWithoutKeysROCKGetsTheCallersCredentials(t *testing.T) {
	h := upstreamOf(t, http.MethodPost, "/sandboxes/sbx-1/timeout", "X-API-KEY", "e2b_1", "Authorization", "Bearer token", "Lang_version", "3")
	if h.Get("X-Api-Key") != "e2b_1" || h.Get("Authorization") != "Bearer token" || h.Get("Lang_version") != "3" {
		t.Errorf("%v", h)
	}
}

// Field report M06.
func TestAStrangersWordAboutItsOriginIsNotPassedOn(t *testing.T) {
	h := upstreamOf(t, http.MethodPost, stat, "X-Forwarded-For", "10.0.0.1", "X_Forwarded_For", "10.0.0.1", "X-Forwarded-Host", "evil.test",
		"X-Forwarded-Proto", "https", "X-Forwarded-Uri", "/x", "Forwarded", "for=10.0.0.1", "X-Real-Ip", "10.0.0.1", "True-Client-Ip", "10.0.0.1")
	if h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Forwarded-Proto") != "http" || h.Get("X-Forwarded-Host") == "evil.test" ||
		h["Forwarded"] != nil || h["X-Real-Ip"] != nil || h["X-Forwarded-Uri"] != nil || h["X_forwarded_for"] != nil || h["True-Client-Ip"] != nil {
		t.Errorf("%v", h)
	}
}

// Field report M06.
func TestATrustedProxyIsBelievedAndAppendedTo(t *testing.T) {
	r := sdkRequest()
	r.Header["X-Forwarded-For"] = []string{"198.51.100.1", "198.51.100.2"}
	r.Header["X-Forwarded-Proto"] = []string{"https"}
	r.Header["X_forwarded_host"] = []string{"evil.test"}
	TrustedProxy.meet(r)
	h := outbound(t.Context(), r, 0, nil).Header
	if h.Get("X-Forwarded-For") != "198.51.100.1, 198.51.100.2, 192.0.2.7" || h.Get("X-Forwarded-Proto") != "https" ||
		h.Get("X-Forwarded-Host") != "sandbox.example.com" || h["X_forwarded_host"] != nil {
		t.Errorf("%v", h)
	}
}
