package static_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/static"
)

func TestLookup(t *testing.T) {
	var table map[string]static.Sandbox
	err := json.Unmarshal([]byte(`{
		"a": {},
		"b": {"state":"paused","host":"10.0.0.5","ports":{"8080":31003},"lifecycle":"7"},
		"c": {"state":"starting","host":"::ffff:10.0.0.6"},
		"d": {"state":"deleted"}
	}`), &table)
	if err != nil {
		t.Fatal(err)
	}
	r, err := static.New(table)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]struct {
		state routing.State
		host  netip.Addr
	}{
		"a": {routing.StateRunning, netip.Addr{}},
		"b": {routing.StatePaused, netip.MustParseAddr("10.0.0.5")},
		"c": {routing.StateStarting, netip.MustParseAddr("10.0.0.6")},
		"d": {routing.StateDeleted, netip.Addr{}},
	} {
		route, err := r.Lookup(t.Context(), id)
		if err != nil || route.SandboxID != id || route.State != want.state || route.Host != want.host || route.Lifecycle == "" {
			t.Errorf("%s: %+v, %v", id, route, err)
		}
	}
	if route, err := r.Lookup(t.Context(), "b"); err != nil || route.Ports.String() != "8080:31003 " || route.Lifecycle != "7" {
		t.Errorf("b: %+v, %v", route, err)
	}
	if _, err := r.Lookup(t.Context(), "unknown"); !errors.Is(err, routing.ErrGone) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := r.Lookup(t.Context(), "*"); !errors.Is(err, routing.ErrInvalidSandboxID) || errors.Is(err, routing.ErrGone) {
		t.Errorf("invalid: %v", err)
	}
}

func TestLifecycleFollowsTheAddressAndThePorts(t *testing.T) {
	life := func(s static.Sandbox) string {
		t.Helper()
		r, err := static.New(map[string]static.Sandbox{"a": s})
		if err != nil {
			t.Fatal(err)
		}
		route, err := r.Lookup(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return route.Lifecycle
	}
	base := life(static.Sandbox{Host: "10.0.0.1", Ports: map[uint16]uint16{80: 1000, 81: 1001}})
	if life(static.Sandbox{Host: "10.0.0.1", Ports: map[uint16]uint16{81: 1001, 80: 1000}, State: "paused"}) != base {
		t.Error("it changes with something else")
	}
	if life(static.Sandbox{Host: "10.0.0.2", Ports: map[uint16]uint16{80: 1000, 81: 1001}}) == base ||
		life(static.Sandbox{Host: "10.0.0.1", Ports: map[uint16]uint16{80: 1000, 81: 1002}}) == base {
		t.Error("it does not change")
	}
}

func TestARouteIsTheCallersOwn(t *testing.T) {
	r, err := static.New(map[string]static.Sandbox{"a": {}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.Lookup(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	first.Cluster = "one"
	if second, err := r.Lookup(t.Context(), "a"); err != nil || second.Cluster != "" {
		t.Fatalf("got %+v, %v", second, err)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for want, table := range map[string]map[string]static.Sandbox{
		`"*"`:                 {"*": {}},
		`a: state "sleeping"`: {"a": {State: "sleeping"}},
		`a: host "worker-7"`:  {"a": {Host: "worker-7"}},
		`a: host "fe80::1%e"`: {"a": {Host: "fe80::1%e"}},
		`a: ports 80: 0`:      {"a": {Ports: map[uint16]uint16{80: 0}}},
	} {
		if _, err := static.New(table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %s, got %v", want, err)
		}
	}
}

func TestWhatIsPrivateIsSaidInTheTable(t *testing.T) {
	r, err := static.New(map[string]static.Sandbox{"a": {Private: true}, "b": {}})
	if err != nil {
		t.Fatal(err)
	}
	for id, private := range map[string]bool{"a": true, "b": false} {
		if route, err := r.Lookup(t.Context(), id); err != nil || route.Private != private {
			t.Errorf("%s: %+v, %v", id, route, err)
		}
	}
}

func TestAnOwnerIsTheOneInTheTable(t *testing.T) {
	r, err := static.New(map[string]static.Sandbox{"a": {Owner: "alice"}, "b": {}})
	if err != nil {
		t.Fatal(err)
	}
	for id, subject := range map[string]string{"a": "alice", "b": ""} {
		if route, err := r.Lookup(t.Context(), id); err != nil || route.Owner != (routing.Owner{Subject: subject}) {
			t.Errorf("%s: %+v, %v", id, route, err)
		}
	}
}
