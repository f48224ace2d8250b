package handlers

import (
	"errors"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
)

func TestOnlyHostsThatLeadSomewhereHaveCertificates(t *testing.T) {
	g := newTown(t)
	paused, starting := owned("alice"), owned("alice")
	paused.State, starting.State = routing.StatePaused, routing.StateStarting
	g.estate.put("paused", paused)
	g.estate.put("starting", starting)
	for name, want := range map[string]error{
		"box.test": nil, "api.box.test": nil, "sandbox.box.test": nil, "3000-mine.box.test": nil, "49983-hers.box.test": nil, "3000-mine-rock.box.test": nil,
		"3000-secluded.box.test": nil, "3000-starting.box.test": nil,
		"": ErrNotServed, "evil.test": ErrNotServed, "127.0.0.1": ErrNotServed, "www.box.test": ErrNotServed, "3000-mine.evil.test": ErrNotServed, "a.3000-mine.box.test": ErrNotServed,
		"22-mine.box.test": ErrNotServed, "3000-nowhere.box.test": ErrNotServed, "3000-paused.box.test": ErrNotServed, "4000-mine.box.test": ErrNotServed,
	} {
		if err := g.gateway.Certify(t.Context(), name); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	asked := g.estate.lookups()
	if err := g.gateway.Certify(t.Context(), "3000-nowhere.box.test"); !errors.Is(err, ErrNotServed) || g.estate.lookups() != asked {
		t.Errorf("%v, asked %d times more", err, g.estate.lookups()-asked)
	}
	g.estate.fail(routing.ErrUnavailable)
	if err := g.gateway.Certify(t.Context(), "3000-unknown.box.test"); err == nil || errors.Is(err, ErrNotServed) {
		t.Errorf("an outage is taken for an answer: %v", err)
	}
	if err := newRig(t).gateway.Certify(t.Context(), "box.test"); !errors.Is(err, ErrNotServed) {
		t.Errorf("without domains: %v", err)
	}
}
