package handlers

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// settled is one deployment with sandboxes of several owners, in the order of their ages.
func settled(t *testing.T) (*clusters, *deployment) {
	c := newClusters(t, "a")
	d := c.rocks["a"]
	d.put("oldest", rockRecord{metadata: of("alice", alice, "job", "x")})
	d.put("bobs", rockRecord{metadata: of("bob", bob, "job", "x")})
	d.put("older", rockRecord{metadata: without(of("alice", alicesOther), routing.MetadataSubject)})
	d.put("past", rockRecord{metadata: map[string]string{"job": "x"}, owner: routing.Owner{Key: auth.DigestOf(alicesOther)}})
	d.put("nobodys", rockRecord{metadata: map[string]string{"job": "x"}})
	d.put("strangers", rockRecord{owner: routing.Owner{Key: auth.DigestOf(stranger)}})
	d.put("starting", rockRecord{state: "pending", metadata: of("alice", alice)})
	d.put("paused", rockRecord{state: "stopped", metadata: of("alice", alice)})
	d.put("newest", rockRecord{metadata: of("alice", alicesOther, "job", "y")})
	return c, d
}

// Contract checklist 30, field report D03: no filter is needed, and what shows is running and the caller's.
func TestAListShowsTheCallersRunningSandboxesTheNewestFirst(t *testing.T) {
	c, _ := settled(t)
	const alices = "newest past older oldest"
	for target, want := range map[string]string{
		"/v2/sandboxes":                                                  alices,
		"/sandboxes":                                                     alices,
		"/v2/sandboxes?state=running":                                    alices,
		"/v2/sandboxes?state=running%2Cpaused":                           alices,
		"/v2/sandboxes?state=running,paused&x=y":                         alices,
		"/v2/sandboxes?state=running&state=paused":                       alices,
		"/v2/sandboxes?metadata=job%3Dx":                                 "past oldest",
		"/v2/sandboxes?metadata=job%3Ay":                                 "newest",
		"/v2/sandboxes?metadata=job%3Dz":                                 "",
		"/v2/sandboxes?metadata=e2b-gateway%2Fsubject%3Dalice":           "",
		"/v2/sandboxes?metadata=e2b-gateway%252Fsubject%3Dbob":           "",
		"/v2/sandboxes?metadata=job%3Dx%26job2%3Dx&state=paused,running": "",
	} {
		for _, key := range []string{alice, alicesOther} {
			ids, r := c.list(key, target)
			if ids != want || r.header.Get("X-Next-Token") != "" || r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %q, want %q, %v", target, ids, want, r.header)
			}
			if strings.Contains(r.body, "e2b-gateway") || strings.Contains(r.body, "10.20.30.41") || strings.Contains(r.body, "oken") {
				t.Errorf("%s shows too much: %s", target, r.body)
			}
		}
	}
	for key, want := range map[string]string{bob: "bobs", root: "newest strangers nobodys past older bobs oldest"} {
		if ids, _ := c.list(key, "/v2/sandboxes"); ids != want {
			t.Errorf("%s: %q", key, ids)
		}
	}
	c.access.AllowUnowned = true
	if ids, _ := c.list(alice, "/v2/sandboxes"); ids != "newest strangers nobodys past older oldest" {
		t.Errorf("where nobody's are everybody's: %q", ids)
	}
	c.open()
	if ids, _ := c.list("", "/v2/sandboxes?metadata=job%3Dx"); ids != "nobodys past bobs oldest" {
		t.Errorf("where there are no keys: %q", ids)
	}
}

// Contract 2.2: what an SDK needs of an item, whichever of ROCK's lists it comes from.
func TestAnItemIsWholeWhereverItComesFrom(t *testing.T) {
	c, _ := settled(t)
	want := `[{"sandboxID":"oldest","templateID":"base","clientID":"rock","startedAt":"2026-08-21T14:00:00Z","endAt":"2026-08-21T15:00:00Z",` +
		`"cpuCount":2,"memoryMB":8192,"diskSizeMB":0,"state":"running","envdVersion":"0.3.0","metadata":{%s"job":"x"}}]`
	for _, shown := range []string{"", `"e2b.agents.kruise.io/sandbox-ip":"10.20.30.41",`} {
		c.gateway.opt.ShowAddress = shown != ""
		for _, key := range []string{alice, root} {
			_, r := c.list(key, "/v2/sandboxes?metadata=job%3Dx")
			if !strings.Contains(r.body, strings.Trim(fmt.Sprintf(want, shown), "[]")) {
				t.Errorf("%s", r.body)
			}
		}
	}
	if _, r := c.list(alice, "/v2/sandboxes?metadata=no%3Dne"); r.body != "[]" {
		t.Errorf("no items: %s", r.body)
	}
}

func TestAQueryThatCannotBeReadIsRefused(t *testing.T) {
	c, d := settled(t)
	for query, want := range map[string]int{
		"limit=0": 400, "limit=101": 400, "limit=x": 400, "limit=1&limit=2": 400, "state=dead": 400, "metadata=x": 400, "metadata=a%3Db%26a%3Dc": 400,
		"nextToken=x": 400, "nextToken=AQ": 400, "metadata=%zz": 400, "state=paused": 501,
	} {
		r := c.ask(alice, "GET", "/v2/sandboxes?"+query, "")
		if code, message := r.e2b(t); code != want || r.status != want || message == "" {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
	for _, headers := range [][]string{{"X-Cluster", "b"}, {"X-Cluster", ""}, {"X-Cluster", "a", "X-Cluster", "a"}} {
		if r := c.ask(alice, "GET", "/v2/sandboxes", "", headers...); r.status != 400 {
			t.Errorf("%q: %d %s", headers, r.status, r.body)
		}
	}
	if calls := d.took(); len(calls) > 0 {
		t.Errorf("ROCK was asked: %q", calls)
	}
	if r := c.ask(alice, "GET", "/v3/sandboxes", ""); r.status != 501 {
		t.Errorf("/v3: %d %s", r.status, r.body)
	}
}

// pages reads a list to its end. between is called before each page but the first.
func pages(c *clusters, key, target string, between func()) (ids []string, n int) {
	token := ""
	for {
		page := target
		if token != "" {
			between()
			page += "&nextToken=" + url.QueryEscape(token)
		}
		got, r := c.list(key, page)
		ids, n = append(ids, strings.Fields(got)...), n+1
		if token = r.header.Get("X-Next-Token"); token == "" {
			return ids, n
		}
	}
}

func TestPagesNeitherRepeatNorSkipWhatStays(t *testing.T) {
	c := newClusters(t, "a", "b")
	stay := map[string]bool{}
	for i := range 250 {
		id := fmt.Sprintf("s%03d", i)
		d := c.rocks[c.names[i%2]]
		// Some have begun in the same second.
		d.put(id, rockRecord{metadata: of("alice", alice), started: time.Date(2026, 8, 21, 14, 0, i/3, 0, time.UTC)})
		stay[id] = true
	}
	for _, key := range []string{alice, root} {
		churn := 0
		ids, n := pages(c, key, "/v2/sandboxes?limit=40", func() {
			churn++
			c.rocks["a"].put(fmt.Sprint("new", churn), rockRecord{metadata: of("alice", alice), started: time.Date(2026, 8, 22, 0, 0, churn, 0, time.UTC)})
			gone := fmt.Sprintf("s%03d", 249-churn*40) // one that was or is about to be shown
			delete(stay, gone)
			c.rocks["a"].set(func() { delete(c.rocks["a"].all, gone) })
			c.rocks["b"].set(func() { delete(c.rocks["b"].all, gone) })
		})
		seen := map[string]int{}
		for _, id := range ids {
			seen[id]++
		}
		for id := range stay {
			if seen[id] != 1 {
				t.Errorf("%s is shown %d times", id, seen[id])
			}
		}
		if n < 6 || n > 8 {
			t.Errorf("%d pages", n)
		}
	}
	if ids, r := c.list(alice, "/sandboxes"); len(strings.Fields(ids)) < 240 || r.header.Get("X-Next-Token") != "" {
		t.Errorf("without pages: %d", len(strings.Fields(ids)))
	}
}

func TestATokenIsOfOneList(t *testing.T) {
	c, _ := settled(t)
	c.rocks["a"].put("bobs2", rockRecord{metadata: of("bob", bob)})
	_, r := c.list(alice, "/v2/sandboxes?limit=1")
	token := url.QueryEscape(r.header.Get("X-Next-Token"))
	if ids, _ := c.list(alicesOther, "/v2/sandboxes?limit=2&nextToken="+token); ids != "past older" {
		t.Errorf("another limit: %q", ids)
	}
	for name, ask := range map[string]func() reply{
		"another's":      func() reply { return c.ask(bob, "GET", "/v2/sandboxes?nextToken="+token, "") },
		"another filter": func() reply { return c.ask(alice, "GET", "/v2/sandboxes?metadata=job%3Dx&nextToken="+token, "") },
		"another state":  func() reply { return c.ask(alice, "GET", "/v2/sandboxes?state=running&nextToken="+token, "") },
		"one cluster's":  func() reply { return c.ask(alice, "GET", "/v2/sandboxes?nextToken="+token, "", "X-Cluster", "a") },
		"changed":        func() reply { return c.ask(alice, "GET", "/v2/sandboxes?nextToken=A"+token, "") },
		"twice":          func() reply { return c.ask(alice, "GET", "/v2/sandboxes?nextToken="+token+"&nextToken="+token, "") },
	} {
		if r := ask(); r.status != 400 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// ROCK's E2B list fails for one record that it cannot show, and a page of its own list, too.
func TestABrokenRecordHidesNoOther(t *testing.T) {
	c, d := settled(t)
	for i := range 300 {
		d.put(fmt.Sprintf("s%03d", i), rockRecord{metadata: of("bob", bob)})
	}
	whole, _ := c.list(alice, "/sandboxes")
	for _, id := range []string{"s000", "s100", "s299"} {
		d.set(func() { d.all[id].spoiled = true })
	}
	d.put("odd", rockRecord{metadata: of("alice", alice), memory: "plenty"})
	d.set(func() { d.all["oldest"].spoiled = true })
	want := strings.ReplaceAll(whole, " oldest", "")
	for key, count := range map[string]int{alice: len(strings.Fields(want)), bob: 298, root: 297 + 6} {
		ids, _ := c.list(key, "/sandboxes")
		if n := len(strings.Fields(ids)); n != count || key == alice && ids != want {
			t.Errorf("%s sees %d, want %d", key, n, count)
		}
		if calls := len(d.took()); calls > 60 {
			t.Errorf("ROCK was asked %d times", calls)
		}
	}
	// With nothing but broken ones it gives up soon, and does not say that there are none.
	d.set(func() {
		for _, r := range d.all {
			r.spoiled = true
		}
	})
	r := c.ask(root, "GET", "/v2/sandboxes", "")
	if code, _ := r.e2b(t); code != 500 || len(d.took()) > 30 {
		t.Errorf("%d %s", code, r.body)
	}
}

func TestTheLogTellsOfBrokenRecordsOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, d := settled(t)
		d.put("odd", rockRecord{memory: "plenty"})
		told := 0
		for range 10 {
			l := &list{g: c.gateway}
			l.skip(c.roles["a"], "odd", errDown)
			if l.complaint() != nil {
				told++
			}
			time.Sleep(complaintInterval / 5)
		}
		if told != 2 {
			t.Errorf("told %d times in two minutes", told)
		}
	})
}

func TestAListWithoutROCKsOwnHasWhatCarriesTheCallersName(t *testing.T) {
	c, d := settled(t)
	d.e2bOnly = true
	if ids, _ := c.list(alice, "/v2/sandboxes"); ids != "newest oldest" {
		t.Errorf("%q", ids)
	}
	if r := c.ask(root, "GET", "/v2/sandboxes", ""); r.status != 501 {
		t.Errorf("an admin's: %d %s", r.status, r.body)
	}
}

// Pages that move while they are read: what was on one that was read already is on the next, and the other way round.
func TestPagesOfROCKThatMoveAreReadTwice(t *testing.T) {
	c := newClusters(t, "a")
	d := c.rocks["a"]
	for i := range 600 {
		d.put(fmt.Sprintf("s%03d", i), rockRecord{})
	}
	asked := 0
	d.order = func(ids []string, page int) {
		if asked++; asked == 2 {
			slices.Reverse(ids)
		}
	}
	ids, _ := c.list(root, "/sandboxes")
	if n := len(strings.Fields(ids)); n != 600 {
		t.Errorf("%d of 600 in %d pages", n, asked)
	}
}

// Looking through everything is done for all callers together.
func TestWhoHasANameDoesNotMakeROCKListEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, d := settled(t)
		walks := func() (n int) {
			for _, call := range d.took() {
				if strings.HasPrefix(call, "GET /apis/") {
					n++
				}
			}
			return n
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { c.list(alice, "/v2/sandboxes") })
			wg.Go(func() { c.list(bob, "/v2/sandboxes") })
		}
		wg.Wait()
		if n := walks(); n != 1 {
			t.Errorf("40 lists looked through everything %d times", n)
		}
		// What comes past the gateway shows after a while, what came through it at once, and what has ended never.
		d.put("past2", rockRecord{owner: routing.Owner{Key: auth.DigestOf(alice)}})
		d.put("mine", rockRecord{metadata: of("alice", alice)})
		d.set(func() { delete(d.all, "past"); delete(d.all, "newest") })
		c.gateway.opt.Routes.Invalidate("past")
		if ids, _ := c.list(alice, "/v2/sandboxes"); ids != "mine older oldest" {
			t.Errorf("at once: %q", ids)
		}
		time.Sleep(censusAge)
		if ids, _ := c.list(alice, "/v2/sandboxes"); ids != "mine past2 older oldest" {
			t.Errorf("after a while: %q", ids)
		}
		if n := walks(); n != 1 {
			t.Errorf("%d", n)
		}
	})
}

// Otherwise callers less patient than a census is long would each begin one, and none would be taken.
func TestACensusGoesOnWhenItsFirstCallerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, d := settled(t)
		looks := 0
		d.set(func() {
			d.order = func([]string, int) {
				looks++
				d.mu.Unlock() // others are served meanwhile
				defer d.mu.Lock()
				time.Sleep(time.Minute)
			}
		})
		for range 3 {
			ctx, leave := context.WithTimeout(t.Context(), 10*time.Second)
			r := httptest.NewRequestWithContext(ctx, "GET", "/v2/sandboxes", nil)
			r.Header.Set("X-Api-Key", alice)
			var out Outcome
			if c.gateway.Serve(httptest.NewRecorder(), r, Both, Stranger, &out); out.End != cause.ClientGone {
				t.Errorf("%v (%v)", out.End, out.Err)
			}
			leave()
		}
		if ids, _ := c.list(alice, "/v2/sandboxes"); ids != "newest past older oldest" || looks != 1 {
			t.Errorf("%q after %d looks", ids, looks)
		}
	})
}

// A list that is not whole would say that the rest is gone.
func TestAListThatWouldNotBeWholeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusters(t, "a", "b")
		c.rocks["a"].put("one", rockRecord{metadata: of("alice", alice)})
		c.rocks["b"].put("two", rockRecord{metadata: of("alice", alice)})
		if ids, _ := c.list(alice, "/v2/sandboxes"); ids != "two one" && ids != "one two" {
			t.Errorf("%q", ids)
		}
		for name, out := range map[string]func(d *deployment){
			"down": func(d *deployment) { d.down = true },
			"deaf": func(d *deployment) { d.deaf, d.down = true, false },
		} {
			c.rocks["b"].set(func() { out(c.rocks["b"]) })
			for _, key := range []string{alice, root} {
				r := c.ask(key, "GET", "/v2/sandboxes", "")
				code, message := r.e2b(t)
				if code != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(message, "cluster b") || !strings.Contains(message, "X-Cluster") {
					t.Errorf("%s: %d %s", name, r.status, r.body)
				}
				if ids, _ := c.list(key, "/v2/sandboxes", "X-Cluster", "a"); ids != "one" {
					t.Errorf("%s: of the other: %q", name, ids)
				}
				if r := c.ask(key, "GET", "/v2/sandboxes", "", "X-Cluster", "b"); r.status != 503 {
					t.Errorf("%s: of that one: %d %s", name, r.status, r.body)
				}
			}
		}
	})
}

func TestAListForWhichNobodyCanSayWhoseASandboxIsIsRefused(t *testing.T) {
	c, _ := settled(t)
	deaf := routing.NewCache(&deployment{down: true}, routing.CacheOptions{})
	t.Cleanup(deaf.Close)
	c.gateway.opt.Routes = deaf
	if r := c.ask(alice, "GET", "/v2/sandboxes", ""); r.status != 503 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if ids, _ := c.list(root, "/v2/sandboxes?metadata=job%3Dy"); ids != "newest" {
		t.Errorf("an admin's: %q", ids)
	}
}
