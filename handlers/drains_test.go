package handlers

import (
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

func TestADrainedSandboxIsRefusedAndNothingWasDone(t *testing.T) {
	drains := new(Drains)
	g := newGuarded(t, func(_ *guarded, o *Options) { o.Drains = drains })
	drains.Sandbox(mine)
	for _, k := range callKinds {
		if strings.HasPrefix(k.name, "socket") {
			continue
		}
		r := g.try(t, k, mine, g.token("alice", mine))
		if out := <-g.outcomes; out.End != cause.Drain || r.status != 503 && r.status != 200 || k.name == "unary" && !strings.Contains(r.body, "out of service") {
			t.Errorf("%s: %d %s, %s", k.name, r.status, r.body, out.End)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	// Who may not use it learns nothing of it.
	if r := g.try(t, callKinds[2], mine, g.token("bob", mine)); r.status != 502 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if !drains.RestoreSandbox(mine) || drains.RestoreSandbox(mine) {
		t.Error("it was not drained once")
	}
	if r := g.try(t, callKinds[2], mine, g.token("alice", mine)); r.status != 200 {
		t.Errorf("restored: %d %s", r.status, r.body)
	}
}

func TestNewSandboxesAreMadeInAnotherClusterThanOneThatIsDrained(t *testing.T) {
	c := newClusters(t, "a", "b")
	c.roles["b"].Templates = []string{"gpu"}
	drains := new(Drains)
	c.gateway.opt.Drains = drains
	for _, tc := range []struct {
		drained, body, header string
		status                int
		want                  string
	}{
		{"", base, "", 201, "a"},
		{"a", base, "", 201, "b"},
		{"a", base, "a", 503, ""},
		{"b", `{"templateID":"gpu"}`, "", 503, ""},
	} {
		if tc.drained != "" {
			drains.Cluster(tc.drained, DrainCreates)
		}
		var headers []string
		if tc.header != "" {
			headers = []string{"X-Cluster", tc.header}
		}
		if status, asked := c.create(alice, tc.body, headers...); status != tc.status || asked != tc.want {
			t.Errorf("%+v: %d in %q", tc, status, asked)
		}
		drains.RestoreCluster(tc.drained)
	}
	drains.Cluster("a", DrainCreates)
	drains.Cluster("b", DrainAll)
	if status, asked := c.create(alice, base); status != 503 || asked != "" {
		t.Errorf("all are drained: %d in %q", status, asked)
	}
}

// A stream that was let in before its sandbox was drained, and begins after, must not
// run on: nobody would end it any more.
func TestNoStreamSlipsThroughADrain(t *testing.T) {
	drains := new(Drains)
	g := newRig(t, func(o *Options) { o.Drains = drains })
	c := &dataCall{g: g.gateway, route: &routing.Route{SandboxID: "a"}, line: new(lifeline), out: new(Outcome), r: asked("POST", start).Request}
	c.line.begin(t.Context())
	drains.Sandbox("a")
	c.register(true)
	defer c.unregister()
	if by := endedBy(c.line); by != cause.Drain {
		t.Errorf("it runs on: %s", by)
	}
}

func TestDrainsAreBounded(t *testing.T) {
	drains := &Drains{}
	full := &drainTable{sandboxes: drains.List().Sandboxes, clusters: nil}
	for i := range MaxDrainedSandboxes {
		full.sandboxes[strings.Repeat("a", i/250+1)+"."+strings.Repeat("b", i%250)] = full.sandboxes[""]
	}
	drains.now.Store(full)
	if drains.Sandbox("one-more") {
		t.Error("one more than the most was drained")
	}
}
