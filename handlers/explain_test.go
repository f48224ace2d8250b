package handlers

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/routing"
)

// asked is a request as a server would have read it.
func asked(method, target string, headers ...string) Question {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "gateway.test"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return Question{Request: r}
}

// envdOf are the routing headers of envd in a sandbox.
func envdOf(id string, more ...string) []string {
	return append([]string{"E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49983", "Content-Type", "application/json"}, more...)
}

func TestAnExplanationSaysWhereARequestStops(t *testing.T) {
	g := newGuarded(t)
	for name, tc := range map[string]struct {
		question Question
		stops    StepName
		cause    string
		says     string // the result of the step at which it stops, in part
	}{
		"no call of the API":         {asked("GET", "/nothing"), StepClassify, "no_such_route", ""},
		"one of envd's own routes":   {asked("POST", "/init", envdOf(mine)...), StepRead, "reserved", ""},
		"no sandbox is named":        {asked("POST", stat), StepTarget, "bad_request", "E2b-Sandbox-Id"},
		"two tokens":                 {asked("POST", stat, envdOf(mine, "X-Access-Token", "a", "X-Access-Token", "b")...), StepCredential, "bad_request", ""},
		"no credential":              {asked("POST", stat, envdOf(mine)...), StepCredential, "unauthenticated", ""},
		"a token from elsewhere":     {asked("POST", stat, envdOf(mine, "X-Access-Token", "e2ba_new_x")...), StepCredential, "unauthenticated", "not made here"},
		"somebody else's token":      {asked("POST", stat, envdOf(hers, "X-Access-Token", g.token("alice", hers))...), StepAuthorise, "sandbox_gone", "its owner is bob"},
		"no such sandbox":            {asked("POST", stat, envdOf("none", "X-Access-Token", g.token("alice", "none"))...), StepLookup, "sandbox_gone", "gone"},
		"no key":                     {asked("GET", "/sandboxes/mine"), StepCredential, "unauthenticated", ""},
		"another's sandbox by a key": {asked("DELETE", "/sandboxes/hers", "X-Api-Key", "e2b_a11ce"), StepAuthorise, "sandbox_gone", "its owner is bob"},
		"a call for admins":          {asked("GET", "/teams", "X-Api-Key", "e2b_a11ce"), StepAuthorise, "not_offered", ""},
		"a port that is not exposed": {asked("GET", "/", "E2b-Sandbox-Id", mine, "E2b-Sandbox-Port", "3000", "X-Access-Token", g.token("alice", mine)), StepUpstream, "port_closed", ""},
	} {
		e, err := g.gateway.Explain(t.Context(), tc.question)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		last := e.Steps[len(e.Steps)-1]
		if e.Sent || e.StopsAt != tc.stops || e.Cause != tc.cause || last.OK || last.Name != tc.stops || !strings.Contains(last.Result, tc.says) {
			t.Errorf("%s: stops at %q, %s: %+v", name, e.StopsAt, e.Cause, e.Steps)
		}
		if e.Answer == nil || e.Answer.Status < 400 || e.Answer.Message == "" {
			t.Errorf("%s: the client is told %+v", name, e.Answer)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// Whoever asks what is wrong must not make it look worse.
func TestAnExplanationIsNoCall(t *testing.T) {
	counts := map[string]*Counts{"": NewCounts()}
	g := newGuarded(t, func(_ *guarded, o *Options) {
		for _, c := range o.Clusters {
			counts[c.Name] = NewCounts()
		}
		o.Counts = counts
	})
	for _, q := range []Question{
		asked("POST", stat, envdOf(mine, "X-Access-Token", g.token("alice", mine))...), // would be sent
		asked("POST", stat, envdOf(mine, "X-Access-Token", "x")...),
		asked("GET", "/sandboxes/mine", "X-Api-Key", "e2b_a11ce"),
		asked("GET", "/nothing"),
	} {
		if _, err := g.gateway.Explain(t.Context(), q); err != nil {
			t.Error(err)
		}
	}
	for cluster, c := range counts {
		if n := c.Read(); n.Requests != (Counted{}).Requests || n.Refused != (Counted{}).Refused {
			t.Errorf("cluster %q: %v, %v", cluster, n.Requests, n.Refused)
		}
	}
	if len(counts) < 2 {
		t.Error("no cluster was counted for")
	}
}

// What is explained and what happens must be one thing: each question is put, and the
// same request is sent.
func TestAnExplanationIsWhatHappens(t *testing.T) {
	g := newGuarded(t, func(_ *guarded, o *Options) { o.RockAPI = RockAPIAdmin })
	g.estate.put("paused", routing.Route{State: routing.StatePaused, Owner: routing.Owner{Subject: "alice"}})
	g.estate.put("expired", routing.Route{State: routing.StateExpired, Owner: routing.Owner{Subject: "alice"}})
	g.estate.put("odd", routing.Route{State: routing.StateUnknown, Owner: routing.Owner{Subject: "alice"}})
	g.estate.put("lost", routing.Route{State: routing.StateRunning, Cluster: "elsewhere", Owner: routing.Owner{Subject: "alice"}})
	g.admin = answerWith(200, "application/json", `{"sandboxID":"mine"}`)
	for _, k := range callKinds {
		if strings.HasPrefix(k.name, "socket") {
			continue // the proxy role of this rig has none
		}
		for _, id := range []string{mine, hers, stray, "none", "paused", "expired", "odd", "lost", "bad id"} {
			for _, token := range []string{"", "x", g.token("alice", id), g.token("bob", id)} {
				headers := append([]string{"E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49983"}, k.headers...)
				if k.contentType != "" {
					headers = append(headers, "Content-Type", k.contentType)
				}
				if token != "" {
					headers = append(headers, "X-Access-Token", token)
				}
				g.compare(t, k.method, k.target, headers...)
			}
		}
	}
	for _, call := range []struct{ method, target string }{
		{"GET", "/sandboxes/mine"}, {"GET", "/sandboxes/hers"}, {"GET", "/sandboxes/none"}, {"GET", "/v2/sandboxes"}, {"POST", "/sandboxes/mine/timeout"},
		{"DELETE", "/sandboxes/mine"}, {"POST", "/sandboxes/mine/connect"}, {"POST", "/sandboxes/paused/connect"}, {"POST", "/sandboxes/mine/pause"},
		{"POST", "/sandboxes/paused/resume"}, {"POST", "/sandboxes/mine/refreshes"}, {"GET", "/teams"}, {"POST", "/v2/sandboxes"},
		{"GET", nativeBase + "sandboxes/mine"}, {"GET", "/other"}, {"OPTIONS", "/sandboxes"},
	} {
		for _, key := range []string{"", "e2b_a11ce", "e2b_b0b", "e2b_0ff", "e2b_ad", "e2b_zz"} {
			var headers []string
			if key != "" {
				headers = []string{"X-Api-Key", key}
			}
			g.compare(t, call.method, call.target, headers...)
		}
	}
}

// compare explains a request and sends it.
func (g *guarded) compare(t *testing.T, method, target string, headers ...string) {
	t.Helper()
	q := asked(method, target, headers...)
	q.Request.Host = strings.TrimPrefix(g.URL, "http://")
	e, err := g.gateway.Explain(t.Context(), q)
	if err != nil {
		t.Errorf("%s %s: %v", method, target, err)
		return
	}
	before := g.upstreamHits.Load()
	r := g.send(t, method, target, "", "", headers...)
	out := <-g.outcomes
	sent := g.upstreamHits.Load() > before
	if e.Sent != sent {
		t.Errorf("%s %s %v: explained as sent %v (%s at %s), and sent %v: %d %s", method, target, headers, e.Sent, e.Cause, e.StopsAt, sent, r.status, r.body)
		return
	}
	if e.Sent {
		return
	}
	if e.Cause != out.End.String() || e.Answer == nil || e.Answer.Status != r.status || method != "HEAD" && !strings.Contains(r.body+r.header.Get("Grpc-Message"), e.Answer.Message) {
		t.Errorf("%s %s %v: explained as %s, %+v, and it is %s, %d %s", method, target, headers, e.Cause, e.Answer, out.End, r.status, r.body)
	}
}

func TestAnExplanationNamesWhatWouldBeSentWhere(t *testing.T) {
	g := newGuarded(t)
	signed := "/files?path=%2Fa&signature=v1_x&signature_expiration=9999999999"
	for name, q := range map[string]Question{
		"a stream":   {Request: asked("POST", start, "E2b-Sandbox-Id", mine, "E2b-Sandbox-Port", "49983", "Content-Type", stream).Request, AsOwner: true},
		"a file":     {Request: asked("GET", signed, envdOf(mine)...).Request, As: "alice"},
		"of a owner": {Request: asked("GET", "/health", envdOf(stray)...).Request},
	} {
		e, err := g.gateway.Explain(t.Context(), q)
		if err != nil || !e.Sent || e.StopsAt != "" || e.Cause != "ok" || e.Answer != nil || len(e.Tries) != 1 {
			t.Errorf("%s: %+v %v", name, e, err)
			continue
		}
		try := e.Tries[0]
		if try.Role != "proxy" || try.Cluster != "test" || try.Address != g.cluster.Proxy.Endpoints()[0].Address || strings.Contains(try.Target, "v1_x") {
			t.Errorf("%s: %+v", name, try)
		}
	}
	if n := g.upstreamHits.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestAllAddressesAreNamedThatWouldBeTried(t *testing.T) {
	g := newGuarded(t, func(g *guarded, o *Options) {
		var two []*routing.Endpoint
		for _, url := range []string{"http://one.test:1", "http://two.test:2"} {
			e, err := routing.ParseEndpoint(url)
			if err != nil {
				t.Fatal(err)
			}
			two = append(two, e)
		}
		o.Clusters[0].Proxy = routing.NewBalancer(two, nil)
	})
	q := asked("POST", stat, envdOf(mine)...)
	q.AsOwner = true
	e, err := g.gateway.Explain(t.Context(), q)
	if err != nil || len(e.Tries) != 2 {
		t.Fatalf("%+v %v", e, err)
	}
	for _, endpoint := range g.cluster.Proxy.Endpoints() {
		if !endpoint.Up() {
			t.Errorf("the rehearsal has taken %s out of service", endpoint.Address)
		}
	}
}

// Nothing that is explained has an effect: not on limits, nor on what is remembered.
func TestAnExplanationChangesNothing(t *testing.T) {
	g := newGuarded(t, func(_ *guarded, o *Options) {
		o.Limits = limit.New(auth.Limits{Requests: 1}, auth.Limits{Requests: 1})
		o.RockAPI = RockAPIAdmin
	})
	ask := func(q Question) Explanation {
		e, err := g.gateway.Explain(t.Context(), q)
		if err != nil {
			t.Error(err)
		}
		return e
	}
	for range 20 {
		ask(Question{Request: asked("POST", stat, envdOf(mine)...).Request, AsOwner: true})
	}
	if asked := g.estate.lookups(); asked != 1 {
		t.Errorf("the registry was asked %d times", asked)
	}
	if r := g.try(t, callKinds[2], mine, g.token("alice", mine)); r.status != 200 {
		t.Errorf("the first request after 20 explanations: %d %s", r.status, r.body)
	}
	for _, target := range []string{nativeBase + "sandboxes/mine/restart", nativeBase + "sandboxes/mine/stop"} {
		ask(asked("POST", target, "X-Api-Key", "e2b_ad"))
	}
	ask(asked("DELETE", "/sandboxes/mine", "X-Api-Key", "e2b_a11ce"))
	if s := g.cache.Stats(); s.Invalidations != 0 {
		t.Errorf("%d routes were forgotten", s.Invalidations)
	}
}

func TestACredentialIsNotLentToARequestThatHasOne(t *testing.T) {
	g := newGuarded(t)
	for _, header := range []string{"X-Access-Token", "X-Api-Key", "Authorization", "E2b-Traffic-Access-Token"} {
		q := asked("POST", stat, envdOf(mine, header, "x")...)
		q.AsOwner = true
		if _, err := g.gateway.Explain(t.Context(), q); err != ErrTwoCredentials {
			t.Errorf("%s: %v", header, err)
		}
	}
}

// A deployment whose access tokens are API keys has no token to lend, and lends a key.
func TestExplainingAsAnOwnerWorksWithoutTokens(t *testing.T) {
	g := newGuarded(t, func(g *guarded, _ *Options) { g.access.Tokens = nil })
	for subject, stops := range map[string]StepName{"alice": "", "bob": StepAuthorise} {
		for _, q := range []Question{asked("POST", stat, envdOf(mine)...), asked("GET", "/sandboxes/mine")} {
			q.As = subject
			e, err := g.gateway.Explain(t.Context(), q)
			if err != nil || e.StopsAt != stops {
				t.Errorf("%s: %+v %v", subject, e, err)
			}
			for _, try := range e.Tries {
				if strings.Contains(strings.Join(try.Headers, " "), "X-Access-Token") {
					t.Errorf("%s: the token would go along: %v", subject, try.Headers)
				}
			}
		}
	}
}

func TestAnOutageIsExplainedAsADontKnow(t *testing.T) {
	g := newGuarded(t)
	g.estate.fail(routing.ErrUnavailable)
	q := asked("POST", stat, envdOf(mine)...)
	q.As = "alice"
	e, err := g.gateway.Explain(t.Context(), q)
	if err != nil || e.StopsAt != StepLookup || e.Cause != "registry_unavailable" || e.Sandbox.Answer != "unknown" || e.Answer.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v %v", e, err)
	}
}

func TestASandboxThatStartsIsNotWaitedFor(t *testing.T) {
	g := newGuarded(t)
	g.estate.put("new", routing.Route{State: routing.StateStarting, Owner: routing.Owner{Subject: "alice"}})
	q := asked("POST", stat, envdOf("new")...)
	q.AsOwner = true
	e, err := g.gateway.Explain(t.Context(), q)
	if err != nil || e.StopsAt != StepLookup || !strings.Contains(e.Steps[len(e.Steps)-1].Result, "would wait") {
		t.Errorf("%+v %v", e, err)
	}
}

func TestAGatewayThatDrainsSaysSo(t *testing.T) {
	g := newGuarded(t)
	if err := g.gateway.Drain(t.Context(), DrainPlan{}); err != nil {
		t.Fatal(err)
	}
	q := asked("POST", stat, envdOf(mine)...)
	q.AsOwner = true
	if e, err := g.gateway.Explain(t.Context(), q); err != nil || e.StopsAt != StepDrain {
		t.Errorf("%+v %v", e, err)
	}
}

// A rehearsal ends each call as one whose addresses all refuse to connect: an alert
// about those must not ring because somebody has asked.
func TestWhatIsExplainedIsCountedNowhere(t *testing.T) {
	counts := map[string]*Counts{"test": NewCounts(), "": NewCounts()}
	g := newGuarded(t, func(_ *guarded, o *Options) { o.Counts = counts })
	for _, q := range []Question{
		{Request: asked("POST", stat, envdOf(mine)...).Request, AsOwner: true},
		{Request: asked("POST", start, "E2b-Sandbox-Id", mine, "E2b-Sandbox-Port", "49983", "Content-Type", stream).Request, AsOwner: true},
		asked("POST", stat, envdOf(mine, "X-Access-Token", "e2ba_new_x")...),
		asked("GET", "/nothing"),
	} {
		if _, err := g.gateway.Explain(t.Context(), q); err != nil {
			t.Error(err)
		}
	}
	for cluster, c := range counts {
		if is, nothing := c.Read(), NewCounts().Read(); !reflect.DeepEqual(is, nothing) {
			t.Errorf("cluster %q: %+v", cluster, is)
		}
	}
}
