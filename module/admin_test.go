package module_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/module"
)

// operator asks the admin endpoint of a process.
type operator struct {
	t *testing.T
	*harness.Process
}

// do makes a request and returns the answer.
func (o operator) do(method, path, body string) (int, string) {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// read makes a request that must succeed, and decodes its answer.
func read[T any](o operator, method, path, body string) (v T) {
	o.t.Helper()
	status, answer := o.do(method, path, body)
	if status != http.StatusOK {
		o.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		o.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
	return v
}

// health asks a sandbox whether it runs, by way of the public listener.
func (o operator) health(sandbox string) int {
	o.t.Helper()
	resp, err := o.Client().Do(ask(o.t.Context(), o.URL, sandbox, "/health"))
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func newOperator(t *testing.T, role http.HandlerFunc) operator {
	return operator{t, harness.Binary(t, "{\n"+clusterOf(newRock(t, role), staticSandbox)+"}\n:8080 {\n\te2b\n}\n")}
}

func healthy(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func TestOperatorsCanReadTheStateAtTheAdminEndpoint(t *testing.T) {
	o := newOperator(t, healthy)
	for _, sandbox := range []string{"known", "known", "known", "unknown"} {
		o.health(sandbox)
	}
	status := read[module.Status](o, "GET", "/e2b/status", "")
	if c := status.Cache; c.Hits != 2 || c.Lookups != 2 || c.Found != 1 || c.Gone != 1 || c.Entries != 2 {
		t.Errorf("%+v", c)
	}
	cluster, ok := status.Clusters["default"]
	if !ok || len(cluster.Proxy) != 1 || !cluster.Proxy[0].Up || cluster.Registry != (module.RegistryStatus{Kind: "static"}) || cluster.Mode != "rock" {
		t.Errorf("%+v", status.Clusters)
	}
	if status.Keys != "off" || status.Draining || status.Streams != 0 {
		t.Errorf("%+v", status)
	}
	past := read[handlers.Past](o, "GET", "/e2b/history", "")
	if len(past.Failures) != 1 || past.Failures[0].SandboxID != "unknown" || past.Failures[0].Cause != "sandbox_gone" {
		t.Errorf("%+v", past)
	}
}

func TestNoAdminRouteIsServedByAPublicListener(t *testing.T) {
	o := newOperator(t, healthy)
	for _, route := range module.AdminRoutes() {
		r, err := http.NewRequestWithContext(t.Context(), route.Method, o.URL+anyPath(route), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := o.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: the public listener answers %d", route.Method, route.Path, resp.StatusCode)
		}
	}
}

// anyPath is a path that the route serves.
func anyPath(route module.AdminRoute) string {
	return strings.NewReplacer("{$}", "", "{sandbox}", "known", "{cluster}", "default", "{id}", "1").Replace(route.Path)
}

func TestAdminErrorsAreJSONAndMethodsAreChecked(t *testing.T) {
	o := newOperator(t, healthy)
	for _, tc := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/e2b/status", "", 405}, {"PATCH", "/e2b/streams", "", 405}, {"GET", "/e2b/explain", "", 405}, {"DELETE", "/e2b/", "", 405},
		{"GET", "/e2b/nothing", "", 404}, {"GET", "/e2b/routes/a/b", "", 404},
		{"GET", "/e2b/routes/%20", "", 400}, {"GET", "/e2b/routes/known?fresh=perhaps", "", 400}, {"GET", "/e2b/routes?limit=0", "", 400},
		{"GET", "/e2b/streams?limit=x", "", 400}, {"GET", "/e2b/streams?sanbdox=a", "", 400}, {"GET", "/e2b/streams?sandbox=a&sandbox=b", "", 400},
		{"DELETE", "/e2b/streams", "", 400}, {"DELETE", "/e2b/streams?sandbox=", "", 400}, {"DELETE", "/e2b/streams?cluster=", "", 400},
		{"DELETE", "/e2b/streams?cluster=default&sandbox=a;b", "", 400}, {"DELETE", "/e2b/streams?cluster=default&sandbox=%zz", "", 400},
		{"PUT", "/e2b/drains/clusters/default?scope=%zz", "", 400},
		{"DELETE", "/e2b/streams/x", "", 400}, {"DELETE", "/e2b/streams/99999", "", 404},
		{"PUT", "/e2b/drains/clusters/none", "", 404}, {"PUT", "/e2b/drains/clusters/default?scope=some", "", 400}, {"PUT", "/e2b/drains/sandboxes/%20", "", 400},
		{"DELETE", "/e2b/drains/clusters/default", "", 404}, {"DELETE", "/e2b/drains/sandboxes/known", "", 404},
		{"POST", "/e2b/explain", "", 400}, {"POST", "/e2b/explain", "{}{}", 400}, {"POST", "/e2b/explain", `{"metod":"GET"}`, 400},
		{"POST", "/e2b/explain", `{"path":"no path"}`, 400}, {"POST", "/e2b/explain", `{"headers":{"a b":["c"]}}`, 400},
	} {
		status, answer := o.do(tc.method, tc.path, tc.body)
		var told struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal([]byte(answer), &told); status != tc.want || err != nil || told.Error == "" {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, status, answer)
		}
	}
}

func TestARouteIsResolvedAndForgotten(t *testing.T) {
	o := newOperator(t, healthy)
	for _, want := range []string{"registry", "cache"} {
		r := read[handlers.Resolved](o, "GET", "/e2b/routes/known", "")
		if r.Answer != "here" || r.State != "running" || r.Cluster != "default" || r.Lookup != want {
			t.Errorf("%+v, want it from %s", r, want)
		}
	}
	if r := read[handlers.Resolved](o, "GET", "/e2b/routes/known?fresh=true", ""); r.Lookup != "registry" {
		t.Errorf("%+v", r)
	}
	if r := read[handlers.Resolved](o, "GET", "/e2b/routes/none", ""); r.Answer != "gone" || r.State != "" {
		t.Errorf("%+v", r)
	}
	list := read[module.RouteList](o, "GET", "/e2b/routes", "")
	if list.Total != 1 || len(list.Routes) != 1 || list.Routes[0].SandboxID != "known" {
		t.Errorf("%+v", list)
	}
	if done := read[module.Invalidated](o, "DELETE", "/e2b/routes/known", ""); done != (module.Invalidated{SandboxID: "known", Invalidated: true}) {
		t.Errorf("%+v", done)
	}
	if list := read[module.RouteList](o, "GET", "/e2b/routes", ""); list.Total != 0 {
		t.Errorf("%+v", list)
	}
	read[module.Invalidated](o, "DELETE", "/e2b/routes", "")
}

func TestARequestIsExplainedAtTheAdminEndpoint(t *testing.T) {
	o := newOperator(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	e := read[handlers.Explanation](o, "POST", "/e2b/explain", `{"sandbox_id":"known"}`)
	if !e.Sent || e.Operation != "process.Process/List" || len(e.Tries) != 1 || e.Sandbox.Answer != "here" {
		t.Errorf("%+v", e)
	}
	e = read[handlers.Explanation](o, "POST", "/e2b/explain", `{"sandbox_id":"none"}`)
	if e.Sent || e.StopsAt != handlers.StepLookup || e.Cause != "sandbox_gone" || e.Answer.Status != 502 {
		t.Errorf("%+v", e)
	}
	e = read[handlers.Explanation](o, "POST", "/e2b/explain", `{"method":"GET","path":"/sandboxes","plane":"data"}`)
	if e.StopsAt != handlers.StepClassify {
		t.Errorf("%+v", e)
	}
}

// A stream's client is told the cause, as by a drain of the gateway.
func TestAStreamIsListedAndEndedByAnOperator(t *testing.T) {
	o := newOperator(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/connect+json")
		_, _ = w.Write([]byte("\x00\x00\x00\x00\x02{}"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	open := func() *bufio.Reader {
		r := ask(t.Context(), o.URL, "known", "/process.Process/Start")
		r.Method = "POST"
		r.Header.Set("Content-Type", "application/connect+json")
		resp, err := o.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		body := bufio.NewReader(resp.Body)
		if _, err := body.Discard(7); err != nil {
			t.Fatal(err)
		}
		return body
	}
	ends := func(body *bufio.Reader) {
		t.Helper()
		rest, err := io.ReadAll(body)
		if err != nil || !strings.HasPrefix(string(rest), "\x02") || !strings.Contains(string(rest), `"code":"aborted"`) || !strings.Contains(string(rest), "still running") {
			t.Errorf("%q %v", rest, err)
		}
	}
	first, second := open(), open()
	list := read[module.StreamList](o, "GET", "/e2b/streams?sandbox=known", "")
	if list.Total != 2 || list.Streams[0].Operation != "process.Process/Start" || list.Streams[0].Cluster != "default" || list.Streams[0].Client == "" ||
		list.Streams[0].Idle == nil || list.Streams[0].Port != 49983 || list.Streams[0].ID >= list.Streams[1].ID {
		t.Fatalf("%+v", list)
	}
	if none := read[module.StreamList](o, "GET", "/e2b/streams?sandbox=other", ""); none.Total != 0 {
		t.Errorf("%+v", none)
	}
	// Of a list that is too long the first are shown, and how many there are.
	if one := read[module.StreamList](o, "GET", "/e2b/streams?limit=1", ""); one.Total != 2 || len(one.Streams) != 1 {
		t.Errorf("%+v", one)
	}
	id := func(i int) string {
		b, _ := json.Marshal(list.Streams[i])
		var s struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(b, &s)
		return s.ID
	}
	if done := read[module.Ended](o, "DELETE", "/e2b/streams/"+id(0), ""); done.Streams != 1 {
		t.Errorf("%+v", done)
	}
	ends(first)
	if done := read[module.Ended](o, "DELETE", "/e2b/streams?sandbox=known", ""); done.Streams != 1 {
		t.Errorf("%+v", done)
	}
	ends(second)
	past := read[handlers.Past](o, "GET", "/e2b/history", "")
	if n := len(past.StreamEnds); n == 0 || past.StreamEnds[n-1].Ends["drain"] == 0 {
		t.Errorf("%+v", past.StreamEnds)
	}
}

func TestASandboxAndAClusterAreDrainedAndRestored(t *testing.T) {
	o := newOperator(t, healthy)
	if s := o.health("known"); s != 204 {
		t.Fatal(s)
	}
	for _, what := range []string{"sandboxes/known", "clusters/default?scope=all"} {
		read[module.Drained](o, "PUT", "/e2b/drains/"+what, "")
		if s := o.health("known"); s != 503 {
			t.Errorf("%s: drained, it answers %d", what, s)
		}
		e := read[handlers.Explanation](o, "POST", "/e2b/explain", `{"sandbox_id":"known"}`)
		if e.StopsAt != handlers.StepDrain || e.Cause != "drain" || !e.Sandbox.Drained {
			t.Errorf("%+v", e)
		}
		what, _, _ = strings.Cut(what, "?")
		read[module.Restored](o, "DELETE", "/e2b/drains/"+what, "")
		if s := o.health("known"); s != 204 {
			t.Errorf("%s: restored, it answers %d", what, s)
		}
	}
	// Nothing of the sandboxes changes while only creates go elsewhere.
	read[module.Drained](o, "PUT", "/e2b/drains/clusters/default", "")
	if s := o.health("known"); s != 204 {
		t.Errorf("creates are drained, and a sandbox answers %d", s)
	}
	if l := read[handlers.DrainList](o, "GET", "/e2b/drains", ""); l.Clusters["default"].Scope != handlers.DrainCreates || len(l.Sandboxes) != 0 {
		t.Errorf("%+v", l)
	}
	if s := read[module.Status](o, "GET", "/e2b/status", ""); s.Clusters["default"].Drained != handlers.DrainCreates {
		t.Errorf("%+v", s)
	}
}

func TestWhateverOperatorsChangeIsWrittenDown(t *testing.T) {
	o := newOperator(t, healthy)
	for _, route := range module.AdminRoutes() {
		if route.Method != "GET" && route.Path != "/e2b/explain" {
			o.do(route.Method, anyPath(route), "")
		}
	}
	audited := regexp.MustCompile(`"logger":"admin\.api\.e2b".*"action":"([A-Z]+ [^"]+)".*"remote":"127\.0\.0\.1:\d+"`)
	lines := map[string]bool{}
	for _, line := range audited.FindAllStringSubmatch(o.Logs(), -1) {
		lines[line[1]] = true
	}
	for _, route := range module.AdminRoutes() {
		changes := route.Method != "GET" && route.Path != "/e2b/explain"
		if what := route.Method + " " + route.Path; lines[what] != changes {
			t.Errorf("%s: a line in the log: %v", what, lines[what])
		}
	}
}

func TestChangesOfTheRegistryAreTold(t *testing.T) {
	o := newOperator(t, healthy)
	resp, err := http.Get(o.AdminURL() + "/e2b/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var first module.RouteChange
	if err := json.NewDecoder(resp.Body).Decode(&first); err != nil || !first.Watching || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%+v %v", first, err)
	}
	// The connection ends with the config, so that a reload need not wait for it.
	o.Reload("{\n" + clusterOf("http://127.0.0.1:1", staticSandbox) + "}\n:8080 {\n\te2b\n}\n")
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
}
