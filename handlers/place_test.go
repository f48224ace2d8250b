package handlers

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/caddy-e2b/gateway/auth"
)

const base = `{"templateID":"base"}`

// create makes a sandbox and returns the status and the clusters that were asked for it, in their order.
func (c *clusters) create(key, body string, headers ...string) (int, string) {
	c.t.Helper()
	c.posts = nil
	r := c.ask(key, "POST", "/sandboxes", body, headers...)
	return r.status, strings.Join(c.posts, " ")
}

func TestWhereASandboxIsMade(t *testing.T) {
	c := newClusters(t, "a", "b", "c")
	c.roles["b"].Templates = []string{"gpu-*", "base"}
	c.roles["c"].Templates = []string{"gpu-h100"}
	c.keys.keys[auth.DigestOf(bob)].Tenant.Cluster = "c"
	c.keys.keys[auth.DigestOf(root)].Tenant.Cluster = "elsewhere" // is ROCK's word, and none of ours
	for name, tc := range map[string]struct {
		key, body, header string
		status            int
		want              string
	}{
		"nothing decides":             {alice, `{"templateID":"python"}`, "", 201, "a"},
		"the template":                {alice, `{"templateID":"gpu-a10"}`, "", 201, "b"},
		"the first template":          {alice, `{"templateID":"gpu-h100"}`, "", 201, "b"},
		"the client":                  {alice, base, "c", 201, "c"},
		"the client over a template":  {alice, `{"templateID":"gpu-h100"}`, "a", 201, "a"},
		"no such cluster":             {alice, base, "d", 400, ""},
		"another's name for one":      {alice, base, "A", 400, ""},
		"the key":                     {bob, base, "", 201, "c"},
		"the key and the client":      {bob, base, "c", 201, "c"},
		"the key against the client":  {bob, base, "a", 403, ""},
		"a key of no cluster of ours": {root, `{"templateID":"python"}`, "", 201, "a"},
		"a slash is a slash":          {alice, `{"templateID":"gpu-x/y"}`, "", 201, "a"},
	} {
		var headers []string
		if tc.header != "" {
			headers = []string{"X-Cluster", tc.header}
		}
		if status, asked := c.create(tc.key, tc.body, headers...); status != tc.status || asked != tc.want {
			t.Errorf("%s: %d in %q, want %d in %q", name, status, asked, tc.status, tc.want)
		}
	}
	c.open()
	if status, asked := c.create("", `{"templateID":"gpu-a10"}`); status != 201 || asked != "b" {
		t.Errorf("without keys: %d in %q", status, asked)
	}
}

func TestSharesFollowTheWeights(t *testing.T) {
	c := newClusters(t, "a", "b", "c")
	c.roles["b"].Weight, c.roles["c"].Weight = 1, 3
	var turns strings.Builder
	for range 8 {
		_, asked := c.create(alice, base)
		turns.WriteString(asked)
	}
	if got := turns.String(); got != "ccbcccbc" {
		t.Errorf("%s", got)
	}
}

// Nothing was sent, so the next one may do it. After a byte was sent, nobody may.
func TestACreateGoesElsewhereOnlyIfItWasNotSent(t *testing.T) {
	c := newClusters(t, "a", "b", "c")
	c.roles["a"].Weight, c.roles["b"].Weight = 1, 2
	c.roles["c"].Templates = []string{"gpu"}
	a, b := c.rocks["a"], c.rocks["b"]
	b.set(func() { b.down = true })
	if status, asked := c.create(alice, base); status != 201 || asked != "b a" {
		t.Errorf("the first time: %d in %q", status, asked)
	}
	for range 6 {
		// It is known by now.
		if status, asked := c.create(alice, base); status != 201 || asked != "a" {
			t.Errorf("%d in %q", status, asked)
		}
	}
	if status, asked := c.create(alice, base, "X-Cluster", "b"); status != 503 || asked != "b" {
		t.Errorf("the client's: %d in %q", status, asked)
	}
	c.keys.keys[auth.DigestOf(bob)].Tenant.Cluster = "b"
	if status, asked := c.create(bob, base); status != 503 || asked != "b" {
		t.Errorf("the key's: %d in %q", status, asked)
	}
	a.set(func() { a.down = true })
	if status, asked := c.create(alice, base); status != 503 || asked != "a b" && asked != "b a" {
		t.Errorf("none can be dialled: %d in %q", status, asked)
	}
	c.rocks["c"].set(func() { c.rocks["c"].down = true })
	if status, asked := c.create(alice, `{"templateID":"gpu"}`); status != 503 || asked != "c" {
		t.Errorf("no other has the template: %d in %q", status, asked)
	}
	for name, fault := range map[string]func(){
		"lost": func() { a.down, a.lost, a.full = false, true, false },
		"full": func() { a.down, a.lost, a.full = false, false, true },
	} {
		a.set(fault)
		for range 3 {
			status, asked := c.create(alice, base)
			if status != 500 || asked != "a" && asked != "b a" {
				t.Errorf("%s: %d in %q", name, status, asked)
			}
		}
	}
}

func TestAChosenIdIsOfOneCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, open := range []bool{false, true} {
			c := newClusters(t, "a", "b")
			c.rocks["b"].put("mine", rockRecord{metadata: of("alice", alice)})
			c.rocks["b"].put("asleep", rockRecord{state: "stopped", metadata: of("alice", alice)})
			if open {
				c.open()
			}
			named := func(id string) string { return `{"templateID":"base","metadata":{"ap-sandbox-id":"` + id + `"}}` }
			for _, id := range []string{"mine", "asleep"} {
				// Where it is, ROCK says what there is to say; elsewhere there would be two.
				if status, asked := c.create(alice, named(id)); status != 400 || asked != "b" {
					t.Errorf("%s: %d in %q", id, status, asked)
				}
				if status, asked := c.create(alice, named(id), "X-Cluster", "a"); status != 400 || asked != "b" {
					t.Errorf("%s elsewhere: %d in %q", id, status, asked)
				}
			}
			if status, asked := c.create(alice, named("free"), "X-Cluster", "b"); status != 201 || asked != "b" {
				t.Errorf("free: %d in %q", status, asked)
			}
			// Two at the same moment, in two clusters.
			var wg sync.WaitGroup
			statuses := make([]int, 2)
			for i, name := range c.names {
				wg.Go(func() { statuses[i] = c.ask(alice, "POST", "/sandboxes", named("twin"), "X-Cluster", name).status })
			}
			wg.Wait()
			if made := c.rocks["a"].all["twin"] != nil; made == (c.rocks["b"].all["twin"] != nil) || statuses[0]+statuses[1] != 201+400 {
				t.Errorf("twins: %v", statuses)
			}
			c.rocks["b"].set(func() { c.rocks["b"].down = true })
			if status, asked := c.create(alice, named("perhaps")); status != 503 || asked != "" {
				t.Errorf("nobody knows: %d in %q", status, asked)
			}
			if status, asked := c.create(alice, base); status != 201 || asked != "a" {
				t.Errorf("ROCK's choice: %d in %q", status, asked)
			}
		}
	})
}

// Not even to be told there that its id is taken: it may not be, by then.
func TestACreateWithAPinnedKeyGoesToNoOtherCluster(t *testing.T) {
	c := newClusters(t, "a", "b")
	c.keys.keys[auth.DigestOf(alice)].Tenant.Cluster = "a"
	for _, state := range []string{"running", "stopped", "pending"} {
		c.rocks["b"].put("mine", rockRecord{state: state, metadata: of("alice", alice)})
		c.gateway.opt.Routes.Invalidate("mine")
		if status, asked := c.create(alice, `{"templateID":"base","metadata":{"ap-sandbox-id":"mine"}}`); status != 400 || asked != "" {
			t.Errorf("%s: %d in %q", state, status, asked)
		}
	}
	c.rocks["a"].put("here", rockRecord{metadata: of("alice", alice)})
	if status, asked := c.create(alice, `{"templateID":"base","metadata":{"ap-sandbox-id":"here"}}`); status != 400 || asked != "a" {
		t.Errorf("in its own: %d in %q", status, asked)
	}
}

// One cluster is dead. What is known of the others holds, and of its own nobody says that it is gone.
func TestWithOneClusterDeadOnlyItsOwnSandboxesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, out := range []string{"down", "deaf"} {
			c := newClusters(t, "a", "b")
			for i := range 20 {
				c.rocks["a"].put(fmt.Sprint("a", i), rockRecord{metadata: of("alice", alice)})
			}
			c.rocks["a"].put("asleep", rockRecord{state: "stopped", metadata: of("alice", alice)})
			c.rocks["b"].put("lost", rockRecord{metadata: of("alice", alice)})
			for id, want := range map[string]int{"asleep": 200, "lost": 200, "never": 404} {
				if r := c.ask(alice, "GET", "/sandboxes/"+id, ""); r.status != want {
					t.Errorf("before: %s: %d %s", id, r.status, r.body)
				}
			}
			c.gateway.opt.Routes.Invalidate("never") // what was found out a moment ago holds a moment
			c.rocks["b"].set(func() { c.rocks["b"].down, c.rocks["b"].deaf = out == "down", out == "deaf" })
			for i := range 20 {
				if route, _, err := c.gateway.opt.Routes.Lookup(t.Context(), fmt.Sprint("a", i)); err != nil || route.Cluster != "a" {
					t.Errorf("%s: %+v, %v", out, route, err)
				}
			}
			for _, id := range []string{"lost", "never"} {
				// Whoever knows where it is may wait for that cluster, in vain.
				inVain := map[string]int{"down": 503, "deaf": 504}[out]
				for _, method := range []string{"GET", "DELETE"} {
					if r := c.ask(alice, method, "/sandboxes/"+id, ""); r.status != 503 && !(id == "lost" && r.status == inVain) || strings.Contains(r.body, "was not found") {
						t.Errorf("%s: %s %s: %d %s", out, method, id, r.status, r.body)
					}
				}
			}
			if r := c.ask(alice, "GET", "/sandboxes/asleep", ""); r.status != 200 {
				t.Errorf("%s: one that is paused elsewhere: %d %s", out, r.status, r.body)
			}
			if out == "deaf" {
				continue
			}
			c.open()
			for id, want := range map[string]int{"asleep": 200, "lost": 503, "never": 503} {
				if r := c.ask("", "GET", "/sandboxes/"+id, ""); r.status != want {
					t.Errorf("without keys: %s: %d %s", id, r.status, r.body)
				}
			}
		}
	})
}
