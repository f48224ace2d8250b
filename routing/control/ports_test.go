package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
)

const live = `{"sandbox_id":"sbx-1","state":"running","host_ip":"10.20.30.41","port_mapping":{"22555":31001,"8080":31003},"status":{}}`

var described = routing.Route{
	SandboxID: "sbx-1", Cluster: "c", State: routing.StateRunning, Host: netip.MustParseAddr("10.20.30.41"), Lifecycle: "life", PortsUnknown: true,
}

func TestWhatRunsIsDescribedWithoutItsPorts(t *testing.T) {
	for state, unknown := range map[string]bool{"running": true, "paused": false} {
		route, err := New(answer(200, `{"sandboxID":"sbx-1","state":"`+state+`"}`)).Lookup(t.Context(), "sbx-1")
		if err != nil || route.PortsUnknown != unknown {
			t.Errorf("%s: %+v, %v", state, route, err)
		}
	}
}

func TestARecordTellsThePortsAndWhetherTheSandboxStarts(t *testing.T) {
	ports := map[uint16]uint16{22555: 31001, 8080: 31003}
	change := func(old, now string) string { return strings.Replace(live, old, now, 1) }
	for name, tc := range map[string]struct {
		record string
		state  routing.State
		ports  map[uint16]uint16
		host   string
	}{
		"running":             {live, routing.StateRunning, ports, "10.20.30.41"},
		"moved":               {change("30.41", "30.42"), routing.StateRunning, ports, "10.20.30.42"},
		"no address":          {change("10.20.30.41", ""), routing.StateRunning, ports, "10.20.30.41"},
		"no ports":            {change(`{"22555":31001,"8080":31003}`, `null`), routing.StateRunning, nil, "10.20.30.41"},
		"starting":            {change("running", "pending"), routing.StateStarting, ports, "10.20.30.41"},
		"has failed to start": {strings.NewReplacer("running", "pending", `"status":{}`, `"status":{"image_pull":{"status":"failed"}}`).Replace(live), routing.StateFailed, ports, "10.20.30.41"},
	} {
		route, err := mapped(&described, json.RawMessage(tc.record))
		if err != nil || route.State != tc.state || !reflect.DeepEqual(route.Ports, routing.PortsOf(tc.ports)) || route.Host.String() != tc.host ||
			route.PortsUnknown || route.Lifecycle != "life" || route.Cluster != "c" {
			t.Errorf("%s: %+v, %v", name, route, err)
		}
	}
}

// Whoever was let in to one sandbox must not reach another under the same id.
func TestARecordOfAnotherSandboxOpensNoPort(t *testing.T) {
	note := `{"e2b-gateway/owner":"bob ` + strings.Repeat("01", 32) + `"}`
	for name, tc := range map[string]struct {
		metadata string
		want     error
	}{
		"nobody's, as before": {`{"a":"b"}`, nil},
		"somebody's now":      {note, routing.ErrGone},
		"private now":         {`{"e2b-gateway/traffic":"private"}`, routing.ErrGone},
		"cannot be read":      {`["a"]`, routing.ErrUnavailable},
	} {
		record := strings.TrimSuffix(live, "}") + `,"metadata":` + tc.metadata + `}`
		if route, err := mapped(&described, json.RawMessage(record)); !errors.Is(err, tc.want) || (route == nil) != (tc.want != nil) {
			t.Errorf("%s: %+v, %v", name, route, err)
		}
	}
	bobs := described
	bobs.Owner = routing.ParseOwner("bob " + strings.Repeat("01", 32))
	if route, err := mapped(&bobs, json.RawMessage(strings.TrimSuffix(live, "}")+`,"metadata":`+note+`}`)); err != nil || route.Owner != bobs.Owner {
		t.Errorf("his own: %+v, %v", route, err)
	}
}

func TestAnAnswerWithoutPortsIsGoneOrUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"not found":       {200, `{"status":"Failed","error":"Sandbox sbx-1 not found","result":{"code":4000}}`, routing.ErrGone},
		"failed":          {200, `{"status":"Failed","error":"x","result":null}`, routing.ErrUnavailable},
		"broken":          {500, `{"status":"Success","result":` + live + `}`, routing.ErrUnavailable},
		"no JSON":         {200, `<html>`, routing.ErrUnavailable},
		"no result":       {200, `{"status":"Success"}`, routing.ErrUnavailable},
		"another's":       {200, `{"status":"Success","result":` + strings.Replace(live, "sbx-1", "sbx-2", 1) + `}`, routing.ErrUnavailable},
		"does not run":    {200, `{"status":"Success","result":` + strings.Replace(live, "running", "stopped", 1) + `}`, routing.ErrUnavailable},
		"tells no state":  {200, `{"status":"Success","result":{"sandbox_id":"sbx-1"}}`, routing.ErrUnavailable},
		"tells its ports": {200, `{"status":"Success","result":` + live + `}`, nil},
	} {
		asked := ""
		r := New(func(_ context.Context, path string) (*http.Response, error) {
			asked = path
			return &http.Response{StatusCode: tc.status, Body: io.NopCloser(strings.NewReader(tc.body))}, nil
		})
		route, err := r.Map(t.Context(), &described)
		if !errors.Is(err, tc.want) || errors.Is(err, routing.ErrGone) != (tc.want == routing.ErrGone) || asked != "/apis/envs/sandbox/v1/get_status?sandbox_id=sbx-1" {
			t.Errorf("%s: %+v, %v after %s", name, route, err, asked)
		}
	}
}

func FuzzMapped(f *testing.F) {
	f.Add(live)
	f.Add(`{"sandbox_id":"sbx-1","state":"pending","port_mapping":[],"metadata":{"a":null}}`)
	f.Fuzz(func(t *testing.T, record string) {
		route, err := mapped(&described, json.RawMessage(record))
		if (route == nil) == (err == nil) {
			t.Fatalf("%+v and %v", route, err)
		}
		if route != nil && (route.PortsUnknown || route.Owner != described.Owner || route.Private) {
			t.Fatalf("%+v", route)
		}
	})
}
