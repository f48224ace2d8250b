package clusters

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// user is an SDK with a sandbox in each cluster.
type user struct {
	*asker
	name string
	// here is in the cluster that lives, there in the one that dies.
	here, there string
}

// soon is how long a call may take that a dead cluster is no business of. Dead ones cost seconds where they are waited for.
const soon = 5 * time.Second

// One of two clusters loses its admin role, its proxy role and its Redis at once.
func TestOneClusterDyingTakesNothingElseAlong(t *testing.T) {
	a, b := deploy(t), deploy(t)
	g := inprocess.Start(t, site(t, a.block("a", "weight 1"), b.block("b", "weight 1\ntemplates special-*")), harness.TLS2)
	var users []*user
	for _, name := range []string{"py-2.34.0-sync", "py-newest-async", "js-2.34.0", "js-2.51.0"} {
		u := &user{asker: newAsker(t, client.Named(t, name), g), name: name}
		u.value(ask{Do: "create", Key: alice, Cluster: "a"}, &u.here)
		u.value(ask{Do: "create", Key: alice, Cluster: "b"}, &u.there)
		if a.Sandbox(u.here) == nil || b.Sandbox(u.there) == nil {
			t.Fatalf("%s: X-Cluster does not choose: %s, %s", name, u.here, u.there)
		}
		u.runs(u.here)
		u.runs(u.there)
		users = append(users, u)
	}
	// By weight it is each one's turn, and a list has both.
	shares := map[bool]int{}
	for range 4 {
		shares[a.Sandbox(post(t, g.Client(), g.URL, bob, map[string]string{})) != nil]++
	}
	if shares[true] != 2 || shares[false] != 2 {
		t.Errorf("of four new sandboxes %d are in a", shares[true])
	}
	for _, u := range users {
		if got := u.list(ask{Key: alice}); len(got.IDs) != 2*len(users) {
			t.Errorf("%s: %v", u.name, got)
		}
		if got := u.list(ask{Key: alice, Cluster: "b"}); len(got.IDs) != len(users) || slices.Contains(got.IDs, u.here) {
			t.Errorf("%s: %v", u.name, got)
		}
	}

	b.die()
	for _, u := range users {
		t.Run(u.name, func(t *testing.T) {
			u.t = t
			// The other cluster's go on, known ones and new ones.
			u.runs(u.here)
			for range 3 {
				var id string
				u.value(ask{Do: "create", Key: alice}, &id)
				if a.Sandbox(id) == nil {
					t.Fatalf("%q is not in a", id)
				}
				u.runs(id)
				var was bool
				if u.value(ask{Do: "kill", Key: alice, ID: id}, &was); !was {
					t.Error("it was there")
				}
			}
			if got := u.list(ask{Key: alice, Cluster: "a"}); !slices.Contains(got.IDs, u.here) || len(got.IDs) != len(users) {
				t.Errorf("the list of a: %v", got)
			}
			// Of the dead one's nobody says that they are gone.
			u.dontKnow(ask{Do: "list", Key: alice})
			u.dontKnow(ask{Do: "list", Key: alice, Cluster: "b"})
			u.dontKnow(ask{Do: "create", Key: alice, Cluster: "b"})
			u.dontKnow(ask{Do: "run", ID: u.there, Command: "echo"})
			u.dontKnow(ask{Do: "kill", Key: alice, ID: u.there})
			u.dontKnow(ask{Do: "kill", Key: alice, ID: "never-was"})
		})
	}
}

// runs runs a command in a sandbox.
func (u *user) runs(id string) {
	u.t.Helper()
	var out string
	begun := time.Now()
	u.value(ask{Do: "run", ID: id, Command: "echo here"}, &out)
	if took := time.Since(begun); out != "here\n" || took > soon {
		u.t.Errorf("%s in %s: %q after %v", u.name, id, out, took)
	}
}

// dontKnow makes a call that must raise, and nothing that a program takes for the end of its sandbox.
func (u *user) dontKnow(order ask) {
	u.t.Helper()
	answer := u.ask(order)
	for _, gone := range []string{"NotFound", "NotRunning", "Timeout"} {
		if strings.Contains(answer.Class, gone) {
			u.t.Errorf("%+v: %s: %s", order, answer.Class, answer.Text)
		}
	}
	if answer.Class == "" || strings.Contains(answer.Text, "was not found") {
		u.t.Errorf("%+v: %s %s %s", order, answer.Value, answer.Class, answer.Text)
	}
	u.t.Logf("%s: %s: %s", order.Do, answer.Class, answer.Text)
}

// A Redis that is there and says nothing is the worse case: somebody has to notice.
func TestOneClusterThatHangsSlowsNothingElseDown(t *testing.T) {
	a, b := deploy(t), deploy(t)
	g := inprocess.Start(t, site(t, a.block("a", ""), b.block("b", "")), harness.Cleartext)
	u := &user{asker: newAsker(t, client.Named(t, "js-2.51.0"), g), name: "js-2.51.0"}
	u.value(ask{Do: "create", Key: alice, Cluster: "a"}, &u.here)
	b.redis.Pause()
	defer b.redis.Resume()
	for range 5 {
		var id string
		u.value(ask{Do: "create", Key: alice}, &id)
		u.runs(id)
	}
	u.runs(u.here)
	if got := u.list(ask{Key: alice}); len(got.IDs) != 6 {
		t.Errorf("ROCK itself goes on, so the list is whole: %v", got)
	}
	u.dontKnow(ask{Do: "kill", Key: alice, ID: "never-was"})
}
