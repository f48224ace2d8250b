package module_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

const (
	w3cID       = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + w3cID + "-b7ad6b7169203331-01"
)

// listening is a ROCK that keeps the headers of what it was sent.
func listening(t *testing.T) (rock string, heard chan http.Header) {
	t.Helper()
	heard = make(chan http.Header, 16)
	return newRock(t, func(w http.ResponseWriter, r *http.Request) {
		heard <- r.Header
		w.WriteHeader(http.StatusNoContent)
	}), heard
}

// named asks for a sandbox's health and returns the answer's headers.
func named(t *testing.T, g *harness.Gateway, sandbox string, headers ...string) http.Header {
	t.Helper()
	r := ask(t.Context(), g.URL, sandbox, "/health")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.Header
}

func TestALineOfTheAccessLogIsFoundByTheNameInTheAnswerAndInROCKsLog(t *testing.T) {
	rock, heard := listening(t)
	g := inprocess.Start(t, "{"+clusterOf(rock, staticSandbox)+"}\n:8080 {\n\tlog\n\te2b\n}\n")
	answers := []http.Header{named(t, g, "known"), named(t, g, "known", "traceparent", traceparent), named(t, g, "unknown")}
	g.Stop()
	lines := logLines(t, g.Logs(), "http.log.access")
	if len(lines) != len(answers) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		id := answers[i].Get("X-Request-Id")
		trace := id
		if i == 1 {
			trace = w3cID
		}
		if id == "" || line["request_id"] != id || line["trace_id"] != trace {
			t.Errorf("line %d: request %v, trace %v; the answer says %q", i, line["request_id"], line["trace_id"], id)
		}
		if i < 2 {
			if told := <-heard; told.Get("Eagleeye-Traceid") != trace {
				t.Errorf("request %d: ROCK was told %q", i, told)
			}
		}
		for _, part := range []string{"lookup_duration", "ready_duration", "connect_duration", "first_byte_duration"} {
			if _, ok := line[part].(float64); !ok {
				t.Errorf("line %d: %s is %v", i, part, line[part])
			}
		}
		took, _ := line["duration"].(float64)
		if sum := line["lookup_duration"].(float64) + line["connect_duration"].(float64) + line["first_byte_duration"].(float64); sum <= 0 || sum > took {
			t.Errorf("line %d: the parts are %v of %v", i, sum, took)
		}
	}
	if lines[0]["connect_duration"] == 0. || lines[1]["connect_duration"] != 0. || lines[0]["upstream_status"] != 204. || lines[2]["upstream_status"] != 0. {
		t.Errorf("the first request made a connection and the second used it: %v, %v", lines[0], lines[1])
	}
}

func TestWithoutAnAccessLogTheLineAboutAFailureHasTheNames(t *testing.T) {
	rock, _ := listening(t)
	g := inprocess.Start(t, "{"+clusterOf(rock, staticSandbox)+"}\n:8080 {\n\te2b\n}\n")
	if well := named(t, g, "known"); well.Get("X-Request-Id") != "" {
		t.Errorf("a request of which nothing is written has a name: %v", well)
	}
	told := named(t, g, "unknown", "traceparent", traceparent)
	g.Stop()
	lines := logLines(t, g.Logs(), "http.handlers.e2b")
	if len(lines) != 1 || lines[0]["request_id"] != told.Get("X-Request-Id") || lines[0]["request_id"] == "" || lines[0]["trace_id"] != w3cID {
		t.Fatalf("%v, and the answer says %v", lines, told)
	}
	if _, ok := lines[0]["duration"].(float64); !ok || lines[0]["lookup_duration"] != nil {
		t.Errorf("the times are %v", lines[0])
	}
}

func TestHealthyRequestsAreThinnedAndNoOthers(t *testing.T) {
	rock, _ := listening(t)
	g := inprocess.Start(t, "{"+clusterOf(rock, staticSandbox+"\nlog_sampling 1000000\n")+"}\n:8080 {\n\tlog\n\te2b\n}\n")
	const each = 10
	for range each {
		named(t, g, "known")
		named(t, g, "unknown")
	}
	g.Stop()
	ends := map[any]int{}
	for _, line := range logLines(t, g.Logs(), "http.log.access") {
		ends[line["end"]]++
	}
	// One in a million may be seen.
	if ends["sandbox_gone"] != each || ends["ok"] > 1 {
		t.Errorf("the log has %v", ends)
	}
}

// With Redis down there is a failure for each of thousands of requests a second.
func TestAFloodOfFailuresDoesNotFillTheLog(t *testing.T) {
	rock, _ := listening(t)
	g := inprocess.Start(t, "{"+clusterOf(rock, staticSandbox)+"}\n:8080 {\n\tlog\n\te2b\n}\n")
	const flood = 500
	begun := time.Now()
	for range flood {
		named(t, g, "unknown")
	}
	seconds := int(time.Since(begun)/time.Second) + 2 // two may have begun
	named(t, g, "not/an/id")
	g.Stop()
	told, others := 0., 0
	lines := logLines(t, g.Logs(), "http.handlers.e2b")
	for _, line := range lines {
		if line["end"] != "sandbox_gone" {
			others++
		}
		omitted, _ := line["omitted"].(float64)
		told += omitted
	}
	if n := len(lines) - others; n == 0 || n > 10*seconds || told > flood || others != 1 {
		t.Errorf("%d lines in %d seconds, which tell of %v more, and %d about the other failure", n, seconds, told, others)
	}
	if access := logLines(t, g.Logs(), "http.log.access"); len(access) != flood+1 {
		t.Errorf("the access log has %d lines", len(access))
	}
}

// Anybody may send the name of an RPC of some kilobytes.
func TestAClientCannotWriteALongLineAboutItsFailure(t *testing.T) {
	rock, _ := listening(t)
	g := inprocess.Start(t, "{"+clusterOf(rock, staticSandbox)+"}\n:8080 {\n\te2b\n}\n")
	r := ask(t.Context(), g.URL, "unknown", "/a.B/"+strings.Repeat("A", 15_000))
	resp, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	g.Stop()
	lines := logLines(t, g.Logs(), "http.handlers.e2b")
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	if call, _ := lines[0]["operation"].(string); len(call) != handlers.MaxOperation {
		t.Errorf("the call has %d bytes", len(call))
	}
}

// Caddy's tracing in front: its span, the log and ROCK have one name for a request.
func TestCaddysTraceIsTheOneInTheLogAndTheOneThatROCKIsTold(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	rock, heard := listening(t)
	g := inprocess.Start(t, "{"+clusterOf(rock, staticSandbox)+`}
:8080 {
	log
	tracing {
		span gateway
	}
	e2b
}
`)
	for _, sent := range []string{"", traceparent, "malformed"} {
		named(t, g, "known", "traceparent", sent)
	}
	g.Stop()
	for i, line := range logLines(t, g.Logs(), "http.log.access") {
		told := <-heard
		id, _ := line["traceID"].(string)
		if len(id) != 32 || line["trace_id"] != id || told.Get("Eagleeye-Traceid") != id || !strings.HasPrefix(told.Get("Traceparent"), "00-"+id+"-") {
			t.Errorf("request %d: the span has %q, the log %v, ROCK %q and %q", i, id, line["trace_id"], told["Eagleeye-Traceid"], told["Traceparent"])
		}
		if (i == 1) != (id == w3cID) || told.Get("Traceparent") == traceparent {
			t.Errorf("request %d: %q is not a span of the client's trace", i, told["Traceparent"])
		}
	}
}
