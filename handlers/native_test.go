package handlers

import (
	"fmt"
	"strings"
	"testing"
)

const nativeBase = "/apis/envs/sandbox/v1/"

func nativeDesk(t *testing.T) *desk {
	d := newDesk(t)
	d.gateway.opt.RockAPI = RockAPIAdmin
	return d
}

func TestRocksOwnApiIsClosedUnlessItIsOpened(t *testing.T) {
	off, open := newDesk(t), nativeDesk(t)
	open.gateway.opt.Access = nil
	for name, d := range map[string]*desk{"off": off, "without keys": open} {
		for _, path := range []string{"start_async", "execute", "stop", "sandboxes/alices/restart"} {
			if r := d.ask(root, "POST", nativeBase+path, "{}"); r.status != 404 || len(d.took()) != 0 {
				t.Errorf("%s: %s: %d %s", name, path, r.status, r.body)
			}
		}
	}
}

func TestRocksOwnApiIsForAdmins(t *testing.T) {
	d := nativeDesk(t)
	for name, tc := range map[string]struct {
		headers []string
		want    int
	}{
		"an admin":                     {[]string{"X-Api-Key", root}, 200},
		"an admin, Bearer":             {[]string{"Authorization", "Bearer " + root}, 200},
		"an admin, X-Key":              {[]string{"X-Key", root}, 200},
		"an admin, XRL-Authorization":  {[]string{"Xrl-Authorization", "Bearer " + root}, 200},
		"X-API-Key decides":            {[]string{"X-Api-Key", root, "X-Key", alice, "Xrl-Authorization", "Bearer " + alice}, 200},
		"X-API-Key decides against it": {[]string{"X-Api-Key", alice, "X-Key", root}, 403},
		"an empty one, too":            {[]string{"X-Api-Key", "", "X-Key", root}, 401},
		"an owner":                     {[]string{"X-Api-Key", alice}, 403},
		"an owner, X-Key":              {[]string{"X-Key", alice}, 403},
		"a stranger":                   {[]string{"X-Key", stranger}, 401},
		"nobody":                       {nil, 401},
		"no Bearer":                    {[]string{"Xrl-Authorization", root}, 401},
		"two keys":                     {[]string{"X-Key", root, "X-Key", root}, 400},
		"two tokens":                   {[]string{"Xrl-Authorization", "Bearer " + root, "Xrl-Authorization", "Bearer " + alice}, 400},
	} {
		r := d.ask("", "POST", nativeBase+"execute", "{}", tc.headers...)
		sent := d.took()
		if r.status != tc.want || len(sent) != map[bool]int{true: 1}[tc.want == 200] {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		for _, s := range sent {
			if strings.Contains(fmt.Sprint(s.Header), "e2b_") {
				t.Errorf("%s: ROCK got %v", name, s.Header)
			}
		}
		if tc.want != 200 {
			if code, _ := r.e2b(t); code != tc.want {
				t.Errorf("%s: %s", name, r.body)
			}
		}
	}
}

// The paths themselves are routing's test; here it is what arrives.
func TestRocksOwnApiPassesAsItIs(t *testing.T) {
	d := nativeDesk(t)
	const answer = `{"status":"Failed","message":"x","error":"sandbox a not started at 10.0.0.1:22555","result":null}`
	d.rock = answerWith(200, unary, answer)
	for _, tc := range []struct{ method, path, want string }{
		{"POST", nativeBase + "run_in_session", nativeBase + "run_in_session"},
		{"GET", nativeBase + "get_status?sandbox_id=a&include_all_states=true", nativeBase + "get_status"},
		{"GET", "http://gateway" + nativeBase + "sandboxes", nativeBase + "sandboxes"},
	} {
		r := d.ask(root, tc.method, tc.path, `{"sandbox_id": "a"}`, "X-Rock-Target-Port", "22", "Rock-Host-Ip", "10.0.0.1", "Upgrade", "websocket", "Connection", "Upgrade")
		sent := d.took()
		if r.status != 200 || r.body != answer || len(sent) != 1 {
			t.Fatalf("%s: %d %s", tc.path, r.status, r.body)
		}
		path := sent[0].URL.Opaque
		if path == "" {
			path = sent[0].URL.EscapedPath()
		}
		h := sent[0].Header
		if path != tc.want || sent[0].body != `{"sandbox_id": "a"}` || h["X-Rock-Target-Port"] != nil || h["Rock-Host-Ip"] != nil || h["Upgrade"] != nil {
			t.Errorf("ROCK got %s %v %s", path, h, sent[0].body)
		}
	}
}

// Rock contract 3.9.
func TestWhatMustNotBeReachedIsNotReachedByAdminsEither(t *testing.T) {
	d := nativeDesk(t)
	for _, target := range []string{
		"host/proxy/execute", "get_token", "get_nacos_config", "ops/tasksets", "warmup", "gem/x", "proxy/a/x",
		"sandboxes/a/proxy/port/22555/execute", "sandboxes/a/proxy", "sandboxes/a/vnc", "sandboxes/a/portforward?port=22",
		"%65xecute", "sandboxes%2fa%2frestart", "sandboxes/a/../../get_token", "x/%2e%2e/get_token", "x/..%2fget_token",
		"execute/", "execute;x", "./execute", "/execute", `\execute`, "Execute", "sandboxes/a%00/restart", "sandboxes/../restart",
	} {
		for _, method := range []string{"GET", "POST"} {
			r := d.ask(root, method, nativeBase+target, "{}")
			if r.status != 404 || len(d.took()) != 0 {
				t.Errorf("%s %s: %d %s", method, target, r.status, r.body)
			}
		}
	}
}

func TestAStopByRocksOwnApiIsSeenByTheNextCall(t *testing.T) {
	d := nativeDesk(t)
	for _, tc := range []struct{ path, body string }{
		{"stop", `{"sandbox_id":"alices"}`}, {"stop?sandbox_id=alices", ""}, {"sandboxes/alices/restart", ""},
	} {
		d.ask(alice, "GET", "/sandboxes/alices", "")
		asked := d.records.asked
		d.ask(root, "POST", nativeBase+tc.path, tc.body)
		if d.ask(alice, "GET", "/sandboxes/alices", ""); d.records.asked != asked+1 {
			t.Errorf("%s: the route is remembered", tc.path)
		}
	}
}
