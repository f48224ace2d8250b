package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

func answer(status int, body string) Getter {
	return func(_ context.Context, path string) (*http.Response, error) {
		if path != "/sandboxes/sbx-1" {
			return nil, errors.New("asked for " + path)
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func TestTheAdminRolesAnswersAreReadAsOneOfThree(t *testing.T) {
	refused := errors.New("refused")
	for _, tc := range []struct {
		name  string
		get   Getter
		state routing.State
		err   error
	}{
		{"running", answer(200, `{"sandboxID":"sbx-1","state":"running","startedAt":"2026-08-21T14:12:44+08:00"}`), routing.StateRunning, nil},
		{"paused", answer(200, `{"sandboxID":"sbx-1","state":"paused"}`), routing.StatePaused, nil},
		{"a state we do not know", answer(200, `{"sandboxID":"sbx-1","state":"moving"}`), routing.StateUnknown, nil},
		{"not found", answer(404, `{"code":404,"message":"Sandbox sbx-1 not found"}`), 0, routing.ErrGone},
		{"call not known", answer(404, `{"detail":"Not Found"}`), 0, routing.ErrUnavailable},
		{"404 of a web server", answer(404, `<html>`), 0, routing.ErrUnavailable},
		{"failed", answer(500, `{"code":500,"message":"x"}`), 0, routing.ErrUnavailable},
		{"refused", func(context.Context, string) (*http.Response, error) { return nil, refused }, 0, routing.ErrUnavailable},
		{"not JSON", answer(200, `<html>`), 0, routing.ErrUnavailable},
		{"a list", answer(200, `[]`), 0, routing.ErrUnavailable},
		{"nothing", answer(200, ``), 0, routing.ErrUnavailable},
		{"another sandbox", answer(200, `{"sandboxID":"sbx-2","state":"running"}`), 0, routing.ErrUnavailable},
		{"a failure with 200", answer(200, `{"status":"Failed","message":"x"}`), 0, routing.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			route, err := New(tc.get).Lookup(t.Context(), "sbx-1")
			if !errors.Is(err, tc.err) || errors.Is(err, routing.ErrGone) != (tc.err == routing.ErrGone) {
				t.Fatalf("got %+v, %v", route, err)
			}
			if err == nil && (route.State != tc.state || route.SandboxID != "sbx-1") {
				t.Fatalf("got %+v", route)
			}
		})
	}
}

func TestARestartedSandboxHasAnotherLifecycle(t *testing.T) {
	lookup := func(body string) *routing.Route {
		r, err := New(answer(200, body)).Lookup(t.Context(), "sbx-1")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := lookup(`{"sandboxID":"sbx-1","state":"running","startedAt":"1","metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.0.0.7"}}`)
	same := lookup(`{"sandboxID":"sbx-1","state":"running","startedAt":"1","endAt":"9","metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.0.0.7"}}`)
	later := lookup(`{"sandboxID":"sbx-1","state":"running","startedAt":"2","metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.0.0.7"}}`)
	moved := lookup(`{"sandboxID":"sbx-1","state":"running","startedAt":"1","metadata":{"e2b.agents.kruise.io/sandbox-ip":"rock-worker"}}`)
	if a.Lifecycle != same.Lifecycle || a.Lifecycle == later.Lifecycle || a.Lifecycle == moved.Lifecycle {
		t.Errorf("%s %s %s %s", a.Lifecycle, same.Lifecycle, later.Lifecycle, moved.Lifecycle)
	}
	if a.Host.String() != "10.0.0.7" || moved.Host.IsValid() {
		t.Errorf("hosts %v, %v", a.Host, moved.Host)
	}
}

// ROCK stops a sandbox whose time has run out and shows it as paused.
func TestAStoppedSandboxPastItsEndHasExpired(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for end, want := range map[string]routing.State{
		`"2026-12-01T19:59:59+08:00"`: routing.StateExpired,
		`"2026-12-01T20:00:01+08:00"`: routing.StatePaused,
		`"soon"`:                      routing.StatePaused,
		`null`:                        routing.StatePaused,
	} {
		route, err := parse("sbx-1", 200, []byte(`{"sandboxID":"sbx-1","state":"paused","endAt":`+end+`}`), now)
		if err != nil || route.State != want {
			t.Errorf("%s: %+v, %v", end, route, err)
		}
	}
	route, err := parse("sbx-1", 200, []byte(`{"sandboxID":"sbx-1","state":"running","endAt":"2020-01-01T00:00:00Z"}`), now)
	if err != nil || route.State != routing.StateRunning {
		t.Errorf("running past its end: %+v, %v", route, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(200, `{"sandboxID":"sbx-1","state":"running","metadata":{"a":"b"}}`)
	f.Add(404, `{"code":404}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		route, err := parse("sbx-1", status, []byte(body), time.Now())
		if (route == nil) == (err == nil) {
			t.Fatalf("%+v and %v", route, err)
		}
		if errors.Is(err, routing.ErrGone) && status != http.StatusNotFound {
			t.Fatalf("%d is called gone", status)
		}
	})
}

func TestTheAdminRolesAnswerTellsWhetherASandboxIsPrivate(t *testing.T) {
	for metadata, private := range map[string]bool{
		`{"e2b-gateway/traffic":"private"}`: true, `{"e2b-gateway/traffic":""}`: true, `{"e2b-gateway/Traffic":"private"}`: false, `{}`: false, `null`: false,
	} {
		route, err := New(answer(200, `{"sandboxID":"sbx-1","state":"running","metadata":`+metadata+`}`)).Lookup(t.Context(), "sbx-1")
		if err != nil || route.Private != private {
			t.Errorf("%s: %+v, %v", metadata, route, err)
		}
	}
}

func TestTheAdminRolesAnswerTellsTheOwner(t *testing.T) {
	want := routing.Owner{Subject: "alice", Key: [32]byte{1}}
	for note, owner := range map[string]routing.Owner{want.Metadata(): want, "alice": {}, "": {}} {
		route, err := New(answer(200, `{"sandboxID":"sbx-1","state":"running","metadata":{"e2b-gateway/owner":"`+note+`"}}`)).Lookup(t.Context(), "sbx-1")
		if err != nil || route.Owner != owner {
			t.Errorf("%q: %+v, %v", note, route, err)
		}
	}
}

func TestASandboxIsExtendedByAskingForItsStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"done":    {200, `{"status":"Success","result":{"state":"running"}}`, nil},
		"unknown": {200, `{"status":"Failed","error":"sandbox sbx-1 not found","result":{"code":4000}}`, routing.ErrGone},
		"failed":  {200, `{"status":"Failed","error":"x","result":null}`, routing.ErrUnavailable},
		"broken":  {500, `Traceback`, routing.ErrUnavailable},
		"no JSON": {200, `<html>`, routing.ErrUnavailable},
	} {
		asked := ""
		r := New(func(_ context.Context, path string) (*http.Response, error) {
			asked = path
			return &http.Response{StatusCode: tc.status, Body: io.NopCloser(strings.NewReader(tc.body))}, nil
		})
		if err := r.Extend(t.Context(), &routing.Route{SandboxID: "sbx-1"}); !errors.Is(err, tc.want) || asked != "/apis/envs/sandbox/v1/get_status?sandbox_id=sbx-1" {
			t.Errorf("%s: %v after %s", name, err, asked)
		}
	}
}
