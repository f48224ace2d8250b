package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
)

// role answers the description and, if it is asked for that, the status.
func role(status int, description, record string) Getter {
	return func(_ context.Context, path string) (*http.Response, error) {
		code, body := status, description
		if strings.HasPrefix(path, "/apis/") {
			if path != statusOf("sbx-1") || record == "" {
				return nil, errors.New("asked for " + path)
			}
			code, body = 200, record
		}
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// A sandbox that was paused stays so, however long; one whose time has run out is gone,
// unless its creator wanted it paused then.
func TestAStoppedSandboxIsPausedOrHasExpired(t *testing.T) {
	const (
		ended   = `{"sandboxID":"sbx-1","state":"paused","endAt":"2026-08-21T15:00:00+08:00"}`
		noted   = `{"sandboxID":"sbx-1","state":"paused","endAt":"2026-08-21T15:00:00+08:00","metadata":{"e2b-gateway/on-timeout":"pause"}}`
		nothing = `{"status":"Failed","message":"get status failed","error":"Sandbox sbx-1 not found","result":{"code":4000}}`
		broken  = `{"code":500,"message":"Sandbox sbx-1 end time is invalid"}`
	)
	stopped := func(at, state string) string {
		return `{"status":"Success","result":{"sandbox_id":"sbx-1","state":"` + state + `","stop_time":"` + at +
			`","start_time":"2026-08-21T14:00:00+08:00","metadata":{"e2b-gateway/owner":"alice ` + strings.Repeat("01", 32) + `"}}}`
	}
	for name, tc := range map[string]struct {
		get   Getter
		state routing.State // StateUnknown: don't know
	}{
		"stopped at its end":               {role(200, ended, stopped("2026-08-21T15:01:10+08:00", "stopped")), routing.StateExpired},
		"stopped before its end":           {role(200, ended, stopped("2026-08-21T06:59:59Z", "stopped")), routing.StatePaused},
		"ROCK tells no time":               {role(200, ended, stopped("", "stopped")), routing.StateExpired},
		"ROCK has no such question":        {role(200, ended, nothing), routing.StateExpired},
		"another sandbox's":                {role(200, ended, strings.Replace(stopped("2026-08-21T06:59:59Z", "stopped"), "sbx-1", "sbx-2", 1)), routing.StateExpired},
		"ROCK does not answer":             {role(200, ended, ""), routing.StateUnknown},
		"noted to be paused":               {role(200, noted, ""), routing.StatePaused},
		"not described, and stopped":       {role(500, broken, stopped("2026-08-21T06:59:59Z", "stopped")), routing.StatePaused},
		"not described, and archived":      {role(500, broken, stopped("2026-08-21T06:59:59Z", "archived")), routing.StatePaused},
		"not described, and running":       {role(500, broken, stopped("", "running")), routing.StateUnknown},
		"not described, and not known":     {role(500, broken, nothing), routing.StateUnknown},
		"not described by somebody else":   {role(500, `Traceback`, stopped("2026-08-21T06:59:59Z", "stopped")), routing.StateUnknown},
		"not described, and not JSON then": {role(500, broken, `<html>`), routing.StateUnknown},
	} {
		route, err := New(tc.get).Lookup(t.Context(), "sbx-1")
		switch {
		case tc.state == routing.StateUnknown:
			if !errors.Is(err, routing.ErrUnavailable) || errors.Is(err, routing.ErrGone) {
				t.Errorf("%s: %+v, %v", name, route, err)
			}
		case err != nil || route.State != tc.state || route.SandboxID != "sbx-1":
			t.Errorf("%s: %+v, %v", name, route, err)
		case strings.HasPrefix(name, "not described") && route.Owner.Subject != "alice":
			t.Errorf("%s: nobody's: %+v", name, route)
		}
	}
}

// Published ROCK has nothing of E2B's API, and its web framework's 404 says nothing of the sandbox.
func TestAROCKWithoutE2BsAPIIsAskedForItsOwnStatusOfWhatHasNoRecord(t *testing.T) {
	const unserved = `{"detail":"Not Found"}`
	of := func(id, state string) string {
		return `{"status":"Success","result":{"sandbox_id":"` + id + `","state":"` + state + `"}}`
	}
	not := func(id, code string) string {
		return `{"status":"Failed","message":"get sandbox status failed","error":"Sandbox ` + id + ` not found","result":{"code":` + code + `}}`
	}
	for name, tc := range map[string]struct {
		get  Getter
		want error // nil: paused
	}{
		"stopped":              {role(404, unserved, of("sbx-1", "stopped")), nil},
		"archived":             {role(404, unserved, of("sbx-1", "archived")), nil},
		"deleted":              {role(404, unserved, of("sbx-1", "deleted")), routing.ErrGone},
		"not known":            {role(404, unserved, not("sbx-1", "4000")), routing.ErrGone},
		"running":              {role(404, unserved, of("sbx-1", "running")), routing.ErrUnavailable},
		"pending":              {role(404, unserved, of("sbx-1", "pending")), routing.ErrUnavailable},
		"another one deleted":  {role(404, unserved, of("sbx-2", "deleted")), routing.ErrUnavailable},
		"another one unknown":  {role(404, unserved, not("sbx-2", "4000")), routing.ErrUnavailable},
		"a failure of ROCK's":  {role(404, unserved, not("sbx-1", "5000")), routing.ErrUnavailable},
		"nobody's page":        {role(404, "<html>", of("sbx-1", "deleted")), routing.ErrUnavailable},
		"no such call, either": {role(404, unserved, unserved), routing.ErrUnavailable},
		"ROCK does not answer": {role(404, unserved, ""), routing.ErrUnavailable},
		"described as gone":    {role(404, `{"code":404,"message":"Sandbox sbx-1 not found"}`, ""), routing.ErrGone},
		"described as paused":  {role(200, `{"sandboxID":"sbx-1","state":"paused"}`, ""), nil},
	} {
		route, err := New(tc.get).Evicted(t.Context(), "sbx-1")
		if !errors.Is(err, tc.want) || tc.want == nil && route.State != routing.StatePaused {
			t.Errorf("%s: %+v, %v", name, route, err)
		}
		if errors.Is(tc.want, routing.ErrUnavailable) && errors.Is(err, routing.ErrGone) {
			t.Errorf("%s: gone", name)
		}
	}
}

// get_status pushes back the timeout of what runs, and which sandbox does is not known without E2B's API or a record.
func TestALookupProlongsNothingInAROCKWithoutE2BsAPI(t *testing.T) {
	var asked []string
	get := func(_ context.Context, path string) (*http.Response, error) {
		asked = append(asked, path)
		return &http.Response{StatusCode: 404, Body: io.NopCloser(strings.NewReader(`{"detail":"Not Found"}`))}, nil
	}
	route, err := New(get).Lookup(t.Context(), "sbx-1")
	if !errors.Is(err, routing.ErrUnavailable) || errors.Is(err, routing.ErrGone) {
		t.Errorf("%+v, %v", route, err)
	}
	if !slices.Equal(asked, []string{"/sandboxes/sbx-1"}) {
		t.Errorf("asked for %q", asked)
	}
}

func FuzzStopped(f *testing.F) {
	f.Add(`{"status":"Success","result":{"sandbox_id":"sbx-1","state":"stopped","stop_time":"2026-08-21T06:59:59Z"}}`, true)
	f.Add(`{"status":"Failed","result":{"code":4000}}`, false)
	f.Fuzz(func(t *testing.T, record string, described bool) {
		get := role(500, `{"code":500,"message":"x"}`, record)
		if described {
			get = role(200, `{"sandboxID":"sbx-1","state":"paused","endAt":"2026-08-21T15:00:00+08:00"}`, record)
		}
		route, err := New(get).Lookup(t.Context(), "sbx-1")
		if (route == nil) == (err == nil) || errors.Is(err, routing.ErrGone) {
			t.Fatalf("%+v and %v", route, err)
		}
		if route != nil && route.State != routing.StatePaused && route.State != routing.StateExpired {
			t.Fatalf("%+v", route)
		}
	})
}
