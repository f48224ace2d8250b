package module_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/module"
)

// measured is a site with the gateway, and one with Caddy's metrics.
func measured(e2b string) string { return site(e2b) + ":8081 {\n\tmetrics\n}\n" }

// series are the values of a scrape, by name and labels as Prometheus writes them.
type series map[string]float64

// scrape asks for the metrics and takes those of the gateway, with a shorter name.
func scrape(t testing.TB, g *harness.Gateway) series {
	t.Helper()
	resp, err := g.Client().Get(g.URLOf(":8081") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s: %v", resp.StatusCode, b, err)
	}
	all := series{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "e2b_gateway_") {
			continue
		}
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all["e2b_"+strings.TrimPrefix(line[:at], "e2b_gateway_")] = v
	}
	return all
}

// since takes off what routes had counted before.
func (s series) since(before series) series {
	for name, was := range before {
		if family, _, _ := strings.Cut(name, "{"); strings.HasPrefix(family, "e2b_route_") && strings.HasSuffix(family, "_total") {
			s[name] -= was
		}
	}
	return s
}

// differs says what is not as wanted.
func (s series) differs(want series) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got, ok := s[name]; !ok || got != want[name] {
			return fmt.Sprintf("%s is %v (there: %v), want %v", name, got, ok, want[name])
		}
	}
	return ""
}

// wantSeries waits for values: a client has its answer before the call is over. Those of
// the table of routes are of the process, and count from before on.
func wantSeries(t testing.TB, g *harness.Gateway, before, want series) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for {
		why := scrape(t, g).since(before).differs(want)
		if why == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(why)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestWhatCallsDoCanBeMeasured(t *testing.T) {
	newProbe(t)
	rock := newRock(t, noContent)
	g := inprocess.Start(t, measured(clusterOf(rock, "registry probe a")))
	before := scrape(t, g)
	health(t, g, "one")
	health(t, g, "one")
	health(t, g, "gone")
	health(t, g, "gone")
	address := strings.TrimPrefix(rock, "http://")
	wantSeries(t, g, before, series{
		`e2b_requests_total{cluster="default",end="ok",plane="data"}`:          2,
		`e2b_requests_total{cluster="",end="sandbox_gone",plane="data"}`:       2,
		`e2b_requests_total{cluster="default",end="internal",plane="control"}`: 0,
		`e2b_requests_in_flight`:                                                     0,
		`e2b_route_lookups_total{result="hit"}`:                                      1,
		`e2b_route_lookups_total{result="negative"}`:                                 1,
		`e2b_route_lookups_total{result="miss"}`:                                     2,
		`e2b_registry_lookups_total{cluster="default",result="found"}`:               1,
		`e2b_registry_lookups_total{cluster="default",result="gone"}`:                1,
		`e2b_registry_lookup_seconds_count{cluster="default"}`:                       2,
		`e2b_registry_failing{cluster="default"}`:                                    0,
		`e2b_route_cache_entries`:                                                    2,
		`e2b_address_up{address="` + address + `",cluster="default",role="proxy"}`:   1,
		`e2b_upstream_connections{address="` + address + `"}`:                        1,
		`e2b_upstream_connections_idle`:                                              1,
		`e2b_upstream_dials_total{address="` + address + `"}`:                        1,
		`e2b_upstream_dial_errors_total{address="` + address + `",reason="refused"}`: 0,
		`e2b_upstream_connections{address="sandboxes"}`:                              0,
		`e2b_draining`: 0,
		`e2b_streams_in_flight{cluster="default"}`:             0,
		`e2b_stream_ends_total{cluster="default",end="drain"}`: 0,
	})
}

func TestAnAddressThatIsDownAndARegistryThatFailsCanBeSeen(t *testing.T) {
	g := inprocess.Start(t, measured(clusterOf("http://127.0.0.1:1", "registry redis {\naddress 127.0.0.1:2\n}\ncache {\nttl 1s\n}")))
	before := scrape(t, g)
	for range 5 {
		health(t, g, "one")
	}
	resp, err := g.Client().Get(g.URL + "/sandboxes/one")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	wantSeries(t, g, before, series{
		`e2b_address_up{address="127.0.0.1:1",cluster="default",role="admin"}`:             0,
		`e2b_address_up{address="127.0.0.1:1",cluster="default",role="proxy"}`:             1, // nobody has asked it
		`e2b_upstream_dial_errors_total{address="127.0.0.1:1",reason="refused"}`:           1,
		`e2b_registry_lookups_total{cluster="default",result="found"}`:                     0,
		`e2b_requests_total{cluster="",end="registry_unavailable",plane="data"}`:           5,
		`e2b_requests_total{cluster="default",end="cluster_unreachable",plane="control"}`:  1,
		`e2b_requests_total{cluster="default",end="registry_unavailable",plane="control"}`: 0,
		`e2b_upstream_dial_errors_total{address="127.0.0.1:1",reason="timeout"}`:           0,
		`e2b_upstream_dial_errors_total{address="sandboxes",reason="refused"}`:             0,
		`e2b_credentials_refused_total{plane="data",reason="missing"}`:                     0,
		`e2b_limits_reached_total{cluster="default",limit="sandbox_streams",plane="data"}`: 0,
		`e2b_registry_lookups_in_flight`:                                                   0,
		`e2b_route_stale_age_seconds`:                                                      0,
	})
	if unavailable := scrape(t, g)[`e2b_registry_lookups_total{cluster="default",result="unavailable"}`]; unavailable < 1 {
		t.Errorf("%v lookups without an answer", unavailable)
	}
}

// falls returns a counter, or a part of a histogram, that has less than before.
func (s series) falls(before series) string {
	counters := map[string]bool{}
	for _, m := range module.Metrics() {
		if m.Type != "gauge" {
			counters["e2b_"+strings.TrimPrefix(m.Name, "e2b_gateway_")] = true
		}
	}
	for name, was := range before {
		family, _, _ := strings.Cut(name, "{")
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			family = strings.TrimSuffix(family, part)
		}
		if now, ok := s[name]; counters[family] && (!ok || now < was) {
			return fmt.Sprintf("%s was %v and is %v (there: %v)", name, was, now, ok)
		}
	}
	return ""
}

// Whatever a reload replaces: nothing, the cache and the registry, the client, the gateway alone.
func TestCountersNeverFallOverReloadsUnderLoad(t *testing.T) {
	newProbe(t)
	rock := newRock(t, noContent)
	configs := []string{"registry probe a", "registry probe a", "registry probe b", "registry probe b\ndial_timeout 2s", "registry probe b\nbuffer_body 32KiB"}
	config := func(e2b string) string {
		return measured("\nservers {\nlistener_wrappers {\ne2b\n}\n}\n" + clusterOf(rock, e2b))
	}
	g := inprocess.Start(t, config(configs[0]))
	before := scrape(t, g)
	stop := make(chan struct{})
	var clients, connected sync.WaitGroup
	answered := make([]int, 4)
	url, client := g.URL, g.Client()
	connected.Add(len(answered))
	for i := range answered {
		clients.Go(func() {
			call := func() bool {
				resp, err := client.Do(ask(t.Context(), url, fmt.Sprintf("s%d", answered[i]%3), "/health"))
				if err != nil {
					t.Error(err)
					return false
				}
				resp.Body.Close()
				answered[i]++
				return true
			}
			ok := call()
			connected.Done()
			for ok {
				select {
				case <-stop:
					return
				default:
					ok = call()
				}
			}
		})
	}
	// A connection that waits in a socket which a reload closes is reset by the kernel. One that was accepted outlives all of them.
	connected.Wait()
	last := before
	for range 3 {
		for _, c := range configs {
			g.Reload(config(c))
			now := scrape(t, g)
			if fallen := now.falls(last); fallen != "" {
				t.Fatalf("with %q: %s", c, fallen)
			}
			last = now
		}
	}
	close(stop)
	clients.Wait()
	calls := 0
	for _, n := range answered {
		calls += n
	}
	wantSeries(t, g, before, series{
		`e2b_requests_total{cluster="default",end="ok",plane="data"}`: float64(calls),
		`e2b_requests_in_flight`: 0,
	})
	now := scrape(t, g).since(before)
	lookups := 0.0
	for _, result := range []string{"hit", "negative", "miss"} {
		lookups += now[`e2b_route_lookups_total{result="`+result+`"}`]
	}
	if lookups != float64(calls) {
		t.Errorf("%v lookups for %d calls", lookups, calls)
	}
}

func TestAClusterThatIsTakenOutDisappearsAndOneThatIsRefusedNeverAppears(t *testing.T) {
	rock := newRock(t, noContent)
	two := func(second string) string {
		return measured(strings.Replace(clusterOf(rock, ""), "cluster default {",
			"cluster "+second+" {\nadmin http://127.0.0.1:7\nproxy http://127.0.0.1:7\n}\ncluster default {", 1))
	}
	g := inprocess.Start(t, two("second"))
	has := func(text string) bool {
		for name := range scrape(t, g) {
			if strings.Contains(name, text) {
				return true
			}
		}
		return false
	}
	if !has(`cluster="second"`) || !has("127.0.0.1:7") {
		t.Fatal("a cluster of the config has no series")
	}
	g.Reload(measured(clusterOf(rock, "")))
	if has(`"second"`) || has("127.0.0.1:7") {
		t.Error("a cluster that was taken out has series")
	}
	if err := g.TryReload(two("third") + ":8082 {\n\tbasic_auth {\n\t\tuser nothash\n\t}\n}\n"); err == nil {
		t.Fatal("the config was taken")
	}
	if has(`"third"`) || has("127.0.0.1:7") {
		t.Error("a cluster of a config that was refused has series")
	}
}

// A stream goes on in the config that it began with, and is counted in the one that is there.
func TestStreamsOfReplacedConfigsAreCounted(t *testing.T) {
	rock := newRock(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/sandboxes/") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/connect+json")
		w.Write(envelope.Append(nil, 0, []byte("{}")))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	g := inprocess.Start(t, measured(clusterOf(rock, staticSandbox)))
	before := scrape(t, g)
	r := ask(t.Context(), g.URL, "known", "/process.Process/Start")
	r.Method, r.Body = http.MethodPost, http.NoBody
	r.Header.Set("Content-Type", "application/connect+json")
	resp, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	g.Reload(measured(clusterOf(rock, staticSandbox+"\nbuffer_body 32KiB\ndial_timeout 2s\n")))
	wantSeries(t, g, before, series{`e2b_streams_in_flight{cluster="default"}`: 1, `e2b_requests_in_flight`: 1})
	kill, _ := http.NewRequest(http.MethodDelete, g.URL+"/sandboxes/known", nil)
	answer, err := g.Client().Do(kill)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	wantSeries(t, g, before, series{
		`e2b_streams_in_flight{cluster="default"}`:                              0,
		`e2b_stream_ends_total{cluster="default",end="sandbox_gone"}`:           1,
		`e2b_kill_to_end_seconds_count{cluster="default"}`:                      1,
		`e2b_requests_total{cluster="default",end="sandbox_gone",plane="data"}`: 1,
	})
}

// Whatever is not in the table cannot be looked up, and no value of a label may be one that
// nobody has thought of: each makes a series that somebody has to pay for.
func TestEveryMetricAndEveryValueOfALabelIsInTheTable(t *testing.T) {
	newProbe(t)
	rock := newRock(t, noContent)
	g := inprocess.Start(t, measured(clusterOf(rock, "registry probe a")))
	for _, path := range []string{"/health", "/files", "/nothing", "/init"} {
		resp, err := g.Client().Do(ask(t.Context(), g.URL, "some-client's\"choice", path))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		health(t, g, "some-sandbox")
	}
	configured := map[string]bool{"": true, "default": true, strings.TrimPrefix(rock, "http://"): true, "sandboxes": true}
	seen := map[string]bool{}
	for name := range scrape(t, g) {
		family, rest, _ := strings.Cut(name, "{")
		i := slices.IndexFunc(module.Metrics(), func(m module.Metric) bool {
			own := "e2b_" + strings.TrimPrefix(m.Name, "e2b_gateway_")
			return family == own || m.Type == "histogram" && slices.Contains([]string{own + "_bucket", own + "_sum", own + "_count"}, family)
		})
		if i < 0 {
			t.Errorf("%s is not in the table", name)
			continue
		}
		m := module.Metrics()[i]
		seen[m.Name] = true
		if m.Name == "e2b_gateway_build_info" {
			continue
		}
		for _, pair := range strings.Split(strings.TrimSuffix(rest, "}"), ",") {
			label, quoted, _ := strings.Cut(pair, "=")
			value, _ := strconv.Unquote(quoted)
			if label == "" || label == "le" && m.Type == "histogram" {
				continue
			}
			j := slices.IndexFunc(m.Labels, func(l module.MetricLabel) bool { return l.Name == label })
			if j < 0 {
				t.Errorf("%s: label %s is not in the table", name, label)
			} else if l := m.Labels[j]; l.Values != nil && !slices.Contains(l.Values, value) || l.Values == nil && !configured[value] {
				t.Errorf("%s: label %s has the value %q", name, label, value)
			}
		}
	}
	for _, m := range module.Metrics() {
		if !seen[m.Name] {
			t.Errorf("%s is in the table and never measured", m.Name)
		}
	}
}

// Field report M17.
func TestNoMetricHasALabelThatAClientChooses(t *testing.T) {
	allowed := []string{"cluster", "plane", "end", "limit", "reason", "result", "role", "address", "version", "revision", "go_version"}
	for _, m := range module.Metrics() {
		for _, l := range m.Labels {
			if !slices.Contains(allowed, l.Name) {
				t.Errorf("%s has the label %s", m.Name, l.Name)
			}
			if l.Values != nil && (len(l.Values) > 64 || slices.Contains(l.Values, "")) {
				t.Errorf("%s: label %s has the values %q", m.Name, l.Name, l.Values)
			}
		}
	}
}
