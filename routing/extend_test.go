package routing

import (
	"context"
	"errors"
	"testing"
)

// extendable is a registry that notes what it was asked to extend.
type extendable struct {
	Registry
	extended []string
	err      error
}

func (e *extendable) Extend(_ context.Context, route *Route) error {
	e.extended = append(e.extended, route.SandboxID)
	return e.err
}

// lookupOnly is a registry that cannot extend.
type lookupOnly struct{ Registry }

func TestTheMemberThatHoldsASandboxExtendsIt(t *testing.T) {
	failure := errors.New("failed")
	a, b := &extendable{}, &extendable{err: failure}
	u := NewUnion([]Member{{Cluster: "a", Registry: a}, {Cluster: "b", Registry: b}, {Cluster: "c", Registry: lookupOnly{}}})
	for _, tc := range []struct {
		cluster string
		want    error
	}{{"a", nil}, {"b", failure}, {"c", errors.ErrUnsupported}, {"", errors.ErrUnsupported}} {
		for _, extender := range []Extender{u, NewCache(u, CacheOptions{})} {
			if err := extender.Extend(t.Context(), &Route{SandboxID: "sbx", Cluster: tc.cluster}); !errors.Is(err, tc.want) {
				t.Errorf("%q: %v", tc.cluster, err)
			}
		}
	}
	if len(a.extended) != 2 || len(b.extended) != 2 || a.extended[0] != "sbx" {
		t.Errorf("%q, %q", a.extended, b.extended)
	}
}

func TestItIsKnownWhetherAnythingCanBeExtended(t *testing.T) {
	for name, tc := range map[string]struct {
		registry Registry
		want     bool
	}{
		"one of two": {NewUnion([]Member{{Cluster: "a", Registry: lookupOnly{}}, {Cluster: "b", Registry: &extendable{}}}), true},
		"none":       {NewUnion([]Member{{Cluster: "a", Registry: lookupOnly{}}}), false},
		"itself":     {&extendable{}, true},
		"not itself": {lookupOnly{}, false},
	} {
		if got := NewCache(tc.registry, CacheOptions{}).Extends(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
