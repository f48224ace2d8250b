package clusters

import (
	"fmt"
	"slices"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// many is how many sandboxes alice has.
const many = 250

// awkward is metadata that is read wrongly by whoever decodes once too often or too seldom.
var awkward = map[string]string{"a b": "c&d=e", "100%": "%41+%2B", "ż:": "東,京"}

// Contract 1.4 and checklist 30: Sandbox.list() of every SDK, with and without a filter, in pages, over broken records.
func TestEverySDKListsItsOwnSandboxes(t *testing.T) {
	d := deploy(t)
	g := inprocess.Start(t, site(t, d.block("test", "")), harness.TLS2)
	web := g.Client()
	var ids []string
	for i := range many {
		ids = append(ids, post(t, web, g.URL, alice, map[string]string{"fifth": fmt.Sprint(i % 5)}))
	}
	hard := post(t, web, g.URL, alice, awkward)
	paused := post(t, web, g.URL, alice, map[string]string{"fifth": "1"})
	if err := d.Sandbox(paused).Stop(rock.Stopped); err != nil {
		t.Fatal(err)
	}
	var bobs []string
	for range 3 {
		bobs = append(bobs, post(t, web, g.URL, bob, map[string]string{"fifth": "1"}))
	}
	all := append(slices.Clone(ids), hard)
	slices.Sort(all)
	for _, name := range []string{"py-2.34.0-sync", "js-2.51.0"} {
		a := newAsker(t, client.Named(t, name), g)
		got := a.list(ask{Key: alice})
		if slices.Sort(got.IDs); !slices.Equal(got.IDs, all) || got.Pages != 3 {
			t.Errorf("%s, over sound records: %d in %d pages", name, len(got.IDs), got.Pages)
		}
	}
	// These live, but ROCK cannot tell of them any more, and what they are on fails.
	d.Sandbox(ids[0]).Spoil(rock.SpoilE2B | rock.SpoilNative)
	d.Sandbox(ids[7]).Spoil(rock.SpoilValues)
	d.Sandbox(bobs[0]).Spoil(rock.SpoilE2B | rock.SpoilNative)
	whole := append(slices.Delete(slices.Delete(slices.Clone(ids), 7, 8), 0, 1), hard)
	slices.Sort(whole)
	var fifth []string
	for i, id := range ids {
		if i%5 == 1 {
			fifth = append(fifth, id)
		}
	}
	slices.Sort(fifth)

	for _, by := range client.All {
		t.Run(by.Name, func(t *testing.T) {
			a := newAsker(t, by, g)
			same := func(what string, got listed, want []string, pages int) {
				t.Helper()
				slices.Sort(got.IDs)
				if !slices.Equal(got.IDs, want) || got.Pages != pages {
					t.Errorf("%s: %d in %d pages, want %d in %d", what, len(got.IDs), got.Pages, len(want), pages)
				}
			}
			same("nothing asked", a.list(ask{Key: alice}), whole, 3)
			same("running", a.list(ask{Key: alice, State: []string{"running"}, Limit: 40}), whole, 7)
			same("both", a.list(ask{Key: alice, State: []string{"running", "paused"}}), whole, 3)
			same("by metadata", a.list(ask{Key: alice, Metadata: map[string]string{"fifth": "1"}, Limit: 7}), fifth, 8)
			same("by no metadata that is", a.list(ask{Key: alice, Metadata: map[string]string{"fifth": "5"}}), nil, 1)
			same("bob's", a.list(ask{Key: bob}), slices.Sorted(slices.Values(bobs[1:])), 1)

			got := a.list(ask{Key: alice, Metadata: awkward})
			same("awkward", got, []string{hard}, 1)
			if want := fmt.Sprint([]any{"running", "python:3.11", 2, 8192, awkward, true, true}); fmt.Sprint(got.First) != want {
				t.Errorf("%v, want %v", got.First, want)
			}
			a.raises(ask{Do: "list", Key: alice, State: []string{"paused"}}, "Listing paused sandboxes is not offered by this deployment")
			a.raises(ask{Do: "list", Key: alice, Limit: 1000}, "limit must be a whole number from 1 to 100")
			a.raises(ask{Do: "list", Key: alice, Cluster: "other"}, "X-Cluster must name one cluster of this deployment")
		})
	}
}
