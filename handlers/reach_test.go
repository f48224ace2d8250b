package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// everyControlCall calls f with every kind of call that the classifier knows.
func everyControlCall(sandboxID string, f func(method, path string, op routing.Operation)) {
	for _, path := range routing.ControlPaths(sandboxID) {
		for _, version := range []string{"", "/v2", "/v3"} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"} {
				f(method, version+path, routing.Classify(method, version+path))
			}
		}
	}
}

// Whoever adds a call to the classifier must say whose it is: it fails closed,
// and here.
func TestEveryCallHasARowInTheAccessMatrix(t *testing.T) {
	seen := map[string]bool{}
	everyControlCall("a", func(method, path string, op routing.Operation) {
		seen[op.Name] = true
		if _, ok := reaches[op.Name]; !ok || op.Plane != routing.ControlPlane {
			t.Errorf("%s %s: %q is not in the matrix", method, path, op.Name)
		}
	})
	for name := range reaches {
		if !seen[name] {
			t.Errorf("%q is no call", name)
		}
	}
}

// The matrix: credential, sandbox, and what the call can touch.
func TestTheAccessMatrix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.rock = func(w http.ResponseWriter, r *http.Request) {
			body := `{"sandboxID":"x"}`
			if r.Method == "GET" && strings.HasSuffix(r.URL.Opaque, "sandboxes") {
				body = `[]`
				if strings.HasPrefix(r.URL.Opaque, "/apis/") {
					body = `{"status":"Success","result":{"items":[],"total":0,"has_more":false}}`
				}
			}
			if id, ok := strings.CutPrefix(r.URL.Opaque, "/sandboxes/"); ok && r.Method == "GET" {
				body = `{"sandboxID":"` + id + `","endAt":"2100-01-01T00:00:00Z"}`
			}
			answerWith(200, unary, body)(w, r)
		}
		status := func(key, method, path string) int {
			r := d.ask(key, method, path, "{}")
			if r.status == 201 || r.status == 204 {
				r.status = 200
			}
			if passed := len(d.took()) > 0; passed != (r.status == 200) {
				t.Errorf("%s %s with %s: %d, and ROCK was asked: %v", method, path, key, r.status, passed)
			}
			return r.status
		}
		for _, id := range []string{"alices", "bobs", "nobodys", "unknown"} {
			everyControlCall(id, func(method, path string, op routing.Operation) {
				want := map[string]int{"": 401, stranger: 401, watcher: 403, root: 200}
				switch reachOf(op) {
				case reachAll:
					want[alice], want[bob] = 501, 501
				case reachOne:
					want[alice], want[bob] = 404, 404
					switch id {
					case "alices":
						want[alice], want[alicesOther], want[clerk] = 200, 200, 200
					case "bobs":
						want[bob] = 200
					case "unknown":
						if d.gateway.ownCall(&http.Request{Method: method}, op) != nil {
							want[root] = 404 // the registry's answer, and not ROCK's
						}
					}
				default:
					want[alice], want[bob] = 200, 200
				}
				for key, want := range want {
					if got := status(key, method, path); got != want {
						t.Errorf("%s %s with %q: %d, want %d", method, path, key, got, want)
					}
				}
			})
		}
	})
}

// Unknown, foreign and nobody's must look the same: to the byte, and in time.
// Field report D07.
func TestWhatIsNotTheCallersIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.records.set("deleted", routing.StateDeleted, noted("alice", alice))
		d.records.set("starting", routing.StateStarting, noted("bob", bob))
		d.records.set("paused", routing.StatePaused, noted("bob", bob))
		d.records.set("keyed", routing.StateRunning, routing.Owner{Key: auth.DigestOf(bob)})
		d.records.set("strangers", routing.StateRunning, routing.Owner{Key: auth.DigestOf(stranger)})
		ask := func(id, method string) (string, time.Duration) {
			begun := time.Now()
			r := d.ask(alice, method, "/sandboxes/"+id, "")
			if code, _ := r.e2b(t); code != 404 || r.status != 404 {
				t.Errorf("%s: %d %s", id, r.status, r.body)
			}
			return fmt.Sprint(r.nameless().header, r.body), time.Since(begun)
		}
		for _, method := range []string{"GET", "DELETE"} {
			want, wantTime := ask("unknown", method)
			if wantTime != notFoundFloor {
				t.Errorf("it took %v", wantTime)
			}
			for _, id := range []string{"unknown", "unknown-2", "bobs", "bobs", "nobodys", "deleted", "starting", "paused", "keyed", "strangers"} {
				if got, took := ask(id, method); got != want || took != wantTime {
					t.Errorf("%s took %v:\n%s\n%s", id, took, got, want)
				}
			}
		}
		if sent := d.took(); len(sent) != 0 {
			t.Errorf("ROCK was asked %d times", len(sent))
		}
		// ROCK has ended one of the caller's own a moment ago.
		want, _ := ask("unknown", "GET")
		d.rock = answerWith(404, unary, `{"code":404,"message":"Sandbox alices not found"}`)
		if got, _ := ask("alices", "GET"); got != want || len(d.took()) != 1 {
			t.Errorf("evicted:\n%s\n%s", got, want)
		}
	})
}

// A slow registry must not show through: the time is a multiple of the floor.
func TestASlowLookupIsLevelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, took := range []time.Duration{0, time.Millisecond, notFoundFloor - 1, notFoundFloor + 1, 3*notFoundFloor - 1} {
			begun := time.Now()
			time.Sleep(took) // the bubble's clock
			(&Gateway{floor: notFoundFloor}).level(t.Context(), begun)
			if all := time.Since(begun); all%notFoundFloor != 0 || all < took || all > took+notFoundFloor {
				t.Errorf("%v became %v", took, all)
			}
		}
	})
}

func TestADontKnowIsToldAsOneWhoeversTheSandboxIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		down := fmt.Errorf("%w: %w", routing.ErrUnavailable, errDown)
		for name, tc := range map[string]struct {
			err   error
			pause time.Duration
		}{
			"down a moment ago": {down, time.Millisecond}, // what is remembered is still good
			"down for long":     {down, time.Minute},      // a last known route
			"malformed":         {routing.ErrMalformed, time.Minute},
		} {
			d.records.fail(nil)
			time.Sleep(time.Second)
			d.ask(alice, "GET", "/sandboxes/alices", "")
			d.ask(bob, "GET", "/sandboxes/bobs", "")
			d.took()
			err, pause := tc.err, tc.pause
			d.records.fail(err)
			time.Sleep(pause) // the bubble's clock
			for _, id := range []string{"bobs", "unknown"} {
				r := d.ask(alice, "DELETE", "/sandboxes/"+id, "")
				want := strings.ReplaceAll(d.ask(alice, "DELETE", "/sandboxes/other", "").body, "other", id)
				if code, _ := r.e2b(t); code != 503 || r.body != want {
					t.Errorf("%s, %s: %s", name, id, r.body)
				}
			}
			if sent := d.took(); len(sent) != 0 {
				t.Errorf("ROCK was asked %d times", len(sent))
			}
			if r := d.ask(alice, "DELETE", "/sandboxes/alices", ""); r.status != 200 || len(d.took()) != 1 {
				t.Errorf("%s, one's own: %d %s", name, r.status, r.body)
			}
			if r := d.ask(root, "DELETE", "/sandboxes/unknown", ""); r.status != 200 || len(d.took()) != 1 {
				t.Errorf("%s, an admin: %d %s", name, r.status, r.body)
			}
		}
	})
}

// Registry redis says so when the role that knows cannot be asked.
func TestASandboxOfWhichNobodyCanSayWhoseItIsIsADontKnow(t *testing.T) {
	d := newDesk(t)
	d.records.set("stopped", routing.StateStopped, routing.Owner{})
	d.access.AllowUnowned = true
	if r := d.ask(alice, "DELETE", "/sandboxes/stopped", ""); r.status != 503 || len(d.took()) != 0 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestSandboxesOfNobodyAreEverybodysWhereTheOperatorSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.access.AllowUnowned = true
		for id, want := range map[string]int{"nobodys": 200, "alices": 200, "bobs": 404} {
			if r := d.ask(alice, "GET", "/sandboxes/"+id, ""); r.status != want {
				t.Errorf("%s: %d %s", id, r.status, r.body)
			}
		}
	})
}

// ROCK's own note of the key: the sandbox was made past the gateway.
func TestTheHolderOfTheKeyThatMadeASandboxOwnsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.records.set("a", routing.StateRunning, routing.Owner{Key: auth.DigestOf(expired)}) // once one of alice's
		for key, want := range map[string]int{alice: 200, bob: 404} {
			if r := d.ask(key, "GET", "/sandboxes/a", ""); r.status != want {
				t.Errorf("%s: %d %s", key, r.status, r.body)
			}
		}
	})
}

func TestACallGoesToTheClusterOfItsOwner(t *testing.T) {
	d := newDesk(t)
	endpoint, _ := routing.ParseEndpoint("http://other:8080")
	other := routing.NewBalancer([]*routing.Endpoint{endpoint}, nil)
	t.Cleanup(other.Close)
	// The record is said to be in the second cluster.
	second := &routing.Cluster{Name: "second", Mode: routing.ModeRock, Admin: other, Proxy: other}
	d.gateway.opt.Clusters = append(d.gateway.opt.Clusters, second)
	d.gateway.clusters["second"] = second
	elsewhere := &records{routes: map[string]*routing.Route{}}
	elsewhere.set("far", routing.StatePaused, noted("alice", alice))
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: d.records}, {Cluster: "second", Registry: elsewhere}}), routing.CacheOptions{})
	t.Cleanup(cache.Close)
	d.gateway.opt.Routes = cache
	d.ask(alice, "DELETE", "/sandboxes/far", "")
	if sent := d.took(); len(sent) != 1 || sent[0].Host != "other:8080" {
		t.Errorf("%v", sent)
	}
}

func TestAnOwnersKeyThatCannotBeLookedUpIsADontKnow(t *testing.T) {
	d := newDesk(t)
	_, err := d.gateway.permitOne(t.Context(), &caller{access: &Access{Keys: &keyring{err: errDown}}, key: &auth.Key{Subject: "alice"}}, "alices")
	if err != nil {
		t.Errorf("noted by name: %v", err)
	}
	d.records.set("keyed", routing.StateRunning, routing.Owner{Key: auth.DigestOf(bob)})
	f, err := d.gateway.permitOne(t.Context(), &caller{access: &Access{Keys: &keyring{err: errDown}}, key: &auth.Key{Subject: "alice"}}, "keyed")
	if !errors.Is(err, errDown) || f.Cause.Status() != 503 {
		t.Errorf("%v %v", f, err)
	}
}

func TestWhatIsRememberedDecidesAgainstNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.ask(bob, "GET", "/sandboxes/bobs", "")
		d.took()
		d.records.set("bobs", routing.StateRunning, noted("alice", alice)) // the id is used again
		if r := d.ask(alice, "GET", "/sandboxes/bobs", ""); r.status != 200 || len(d.took()) != 1 {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := d.ask(bob, "GET", "/sandboxes/bobs", ""); r.status != 404 || len(d.took()) != 0 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}
