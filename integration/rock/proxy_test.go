package rock

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestListUnderstandsTheSDKsTripleEncodingAndThePlainForm(t *testing.T) {
	g := newRig(t, Options{})
	r := g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"t","timeout":300,"metadata":{"ap-sandbox-id":"l","a b":"c&d=e%20,ü","k":"v"}}`)
	if r.status != 201 {
		t.Fatal(r.body)
	}
	form := url.PathEscape("a b") + "=" + url.QueryEscape("c&d=e%20,ü") // percent-encoded once...
	form = strings.ReplaceAll(form, "+", "%20")
	k, v, _ := strings.Cut(form, "=")
	sdk := url.QueryEscape(url.Values{k: {v}}.Encode()) // ...then as a form, then as a query value
	for query, found := range map[string]bool{
		"metadata=" + sdk:                             true,
		"metadata=" + sdk + "%26k%3Dv":                true,
		"metadata=" + sdk + "%26k%3Dw":                false,
		"metadata=k%3Dv":                              true,
		"metadata=k:v":                                true,
		"metadata=k:v,ap-sandbox-id:l":                true,
		"metadata=k:w":                                false,
		"metadata=k%3Dv&state=paused&limit=1":         true, // ignored
		"metadata=k%3Dv&nextToken=x":                  true,
		"metadata=a%252520b%3Dc%252526d&state=paused": false,
	} {
		var items []info
		r := g.do("GET", g.proxy.URL()+"/v2/sandboxes?"+query, "")
		r.json(t, &items)
		if r.status != 200 || (len(items) == 1) != found || r.header.Get("X-Next-Token") != "" {
			t.Errorf("%s: got %d %s", query, r.status, r.body)
		}
	}
}

func TestListWithoutAProperFilterIs400(t *testing.T) {
	g := newRig(t, Options{})
	for _, query := range []string{"", "metadata=", "state=running", "metadata=k", "metadata=k%3D", "metadata=%3Dv", "metadata=k:", "metadata=:v",
		"metadata=k%3Dv%26k%3Dw", "metadata=k:v,k:v", "metadata=k:v,", "metadata=k%3Dv%26", "metadata=%zz"} {
		r := g.do("GET", g.proxy.URL()+"/v2/sandboxes?"+query, "")
		if r.status != 400 || !strings.Contains(r.body, `"code":400`) {
			t.Errorf("%s: got %d %s", query, r.status, r.body)
		}
	}
}

func TestListShowsRunningSandboxesOnlyAndOneBadRecordFailsItAll(t *testing.T) {
	g := newRig(t, Options{})
	g.create("one")
	two := g.create("two")
	if err := two.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	var items []info
	g.do("GET", g.proxy.URL()+"/v2/sandboxes?metadata=team%3Da%2520b", "").json(t, &items)
	if len(items) != 1 || items[0].SandboxID != "one" {
		t.Fatalf("got %+v", items)
	}
	three := g.create("three")
	three.mu.Lock()
	three.hostIP = ""
	three.mu.Unlock()
	if r := g.do("GET", g.proxy.URL()+"/v2/sandboxes?metadata=team%3Da%2520b", ""); r.status != 500 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
}

func TestHealthIs204OnlyWhileRunning(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("h")
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "h").want(t, 204, "")
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "never").want(t, 502, "")
	g.do("GET", g.proxy.URL()+"/health", "").want(t, 400, `{"code":400,"message":"E2b-Sandbox-Id header is required"}`)
	if err := s.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "h").want(t, 502, "")
}

func TestHealthBelievesTheRecordNotTheContainer(t *testing.T) {
	g := newRig(t, Options{})
	g.create("h").Crash()
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "h").want(t, 204, "")
}

func TestWhatTheProxyRoleLacksIsAnsweredByFastAPI(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	for _, path := range []string{"/process.Process/Connect", "/process.Process/List", "/process.Process/SendSignal", "/filesystem.Filesystem/Move",
		"/filesystem.Filesystem/Remove", "/filesystem.Filesystem/WatchDir", "/sandboxes", "/metrics"} {
		g.do("POST", g.proxy.URL()+path, "{}", sandboxHeader, "f").want(t, 404, `{"detail":"Not Found"}`)
	}
	g.do("GET", g.proxy.URL()+"/process.Process/Start", "", sandboxHeader, "f").want(t, 405, `{"detail":"Method Not Allowed"}`)
	g.do("PUT", g.proxy.URL()+"/files", "", sandboxHeader, "f").want(t, 405, `{"detail":"Method Not Allowed"}`)
}

func TestStopEndsTheContainerFirstAndEvictsLater(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("slow")
	g.c.SetEvictDelay(time.Hour)
	deleted := make(chan struct{})
	go func() {
		defer close(deleted)
		_ = s.Stop(Deleted) // ends with the cluster
	}()
	<-s.Done()
	if g.record("alive:slow")["state"] != "running" || s.State() != Running {
		t.Fatal("the records went before the container")
	}
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "slow").want(t, 204, "")
	got := frames(t, g.start("slow", command("echo hi")).body)
	if len(got) != 2 || got[1] != `2 {"error":{"code":"unavailable","message":"sandbox command service is unavailable"}}` {
		t.Fatalf("got %q", got)
	}
	if r := g.rpc("slow", "Stat", `{"path":"/"}`); r.status != 503 || !strings.Contains(r.body, `"code":"unavailable"`) {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if r := g.do("GET", g.proxy.URL()+"/files?path=/x", "", sandboxHeader, "slow"); r.status != 502 || !strings.Contains(r.body, `"code":502`) {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if err := g.c.Close(); err != nil {
		t.Fatal(err)
	}
	<-deleted
}

func FuzzListFilter(f *testing.F) {
	for _, s := range []string{"a%2520b=c%2526d", "k:v", "a=b&a=c", "%", "=", "a=%ff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseFilter([]string{s})
		if err == nil && len(m) == 0 {
			t.Fatalf("%q gives an empty filter", s)
		}
		if _, empty := m[""]; empty {
			t.Fatalf("%q gives an empty key", s)
		}
	})
}
