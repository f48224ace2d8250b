package incidents

import (
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

// incident is something that goes wrong. Its name is that of the recipe which must
// find it; that of no recipe is health.
type incident struct {
	name string
	// skew is how far everybody else's clock is behind the gateway's.
	skew time.Duration
	// happen makes it happen. Its traffic is part of every round from then on.
	happen  func(*world)
	traffic func(*world)
}

// health is what is no incident.
const health = "nothing is wrong"

var incidents = []incident{
	{name: health, happen: func(*world) {}},
	{name: "Redis is down", happen: func(w *world) {
		w.relay.close()
		w.redis.Stop()
	}},
	{name: "Redis is slow", happen: func(w *world) {
		w.relay.delay.Store(int64(400 * time.Millisecond))
	}},
	{name: "a token key was taken away too early", happen: func(w *world) {
		w.change(func(d *deployment) { d.tokenKeys = w.tokenKey("two") })
	}},
	{name: "one address of the proxy role is dead", happen: func(w *world) {
		if err := w.proxies[0].Close(); err != nil {
			w.t.Fatal(err)
		}
	}},
	{name: "a sandbox was killed", happen: func(w *world) {
		if err := w.rock.Sandbox(w.sandboxes[0].id).Stop(rock.Deleted); err != nil {
			w.t.Fatal(err)
		}
		<-w.held[0].ended
	}},
	{name: "a port is closed", happen: func(w *world) {
		w.complaint.port = published
	}, traffic: func(w *world) {
		w.call("GET", "/", "", w.sandboxes[0].header(published))
	}},
	{name: "the machine of a sandbox does not answer", happen: func(w *world) {
		w.silence(w.sandboxes[0], published)
		w.complaint.port = published
	}, traffic: func(w *world) {
		w.call("GET", "/", "", w.sandboxes[0].header(published))
	}},
	{name: "a reload, and nothing else", happen: func(w *world) {
		var load sync.WaitGroup
		defer load.Wait()
		stop := make(chan struct{})
		defer close(stop)
		for range 4 {
			load.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						w.round()
					}
				}
			})
		}
		w.change(func(d *deployment) { d.comment = "another" })
	}},
	{name: "clocks differ", skew: time.Hour, happen: func(*world) {}},
	{name: "a name of ROCK's has no address", happen: func(w *world) {
		w.change(func(d *deployment) {
			d.admin, d.proxies = "http://rock-admin.invalid:8080", []string{"http://rock-proxy.invalid:8081"}
		})
	}},
	{name: "a limit is reached", happen: func(w *world) {
		for range streams + 2 {
			w.held = append(w.held, w.open(w.sandboxes[0]))
		}
	}},
}

// patience is how long an incident may take to show.
const patience = 30 * time.Second

// TestEachRecipeFindsItsIncidentAndNoOther is the whole of it: every recipe is
// tried on every incident.
func TestEachRecipeFindsItsIncidentAndNoOther(t *testing.T) {
	for _, i := range incidents {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			w := settle(t, i.skew)
			w.round()
			before, written := w.scrape(), len(w.Logs())
			i.happen(w)
			findings := w.doctor()
			deadline := time.Now().Add(patience)
			var e evidence
			for {
				for range 3 { // so that a moment of a busy machine is not all that there is to see
					w.round()
				}
				if i.traffic != nil {
					i.traffic(w)
				}
				e = w.observe(before, written)
				e.findings = findings
				if i.name == health || found(e, i.name) || time.Now().After(deadline) {
					break
				}
			}
			documented(t, e)
			for _, r := range recipes {
				if got, want := r.seen(e), r.incident == i.name; got != want {
					t.Errorf("the recipe of %q: %v", r.incident, got)
					for _, s := range r.signs {
						t.Logf("%v: %s", s.seen(e), s.look)
					}
				}
			}
		})
	}
}

// found reports whether the recipe of an incident finds it.
func found(e evidence, name string) bool {
	for _, r := range recipes {
		if r.incident == name {
			return r.seen(e)
		}
	}
	return false
}
