package handlers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

func TestThePastIsKeptAsLongAsItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(History)
		r := httptest.NewRequest("POST", "/", nil)
		stream := func(end cause.Cause) { h.Note(r, &Outcome{Stream: true, End: end, SandboxID: "a"}) }
		stream(cause.OK)
		stream(cause.Drain)
		stream(cause.ClientGone)
		time.Sleep(30 * time.Minute)
		stream(cause.Drain)
		h.Note(r, &Outcome{End: cause.OK}) // no stream, and nothing went wrong
		past := h.Past()
		if len(past.StreamEnds) != 2 || past.StreamEnds[0].Ends["ok"] != 1 || past.StreamEnds[0].Ends["client_gone"] != 1 || past.StreamEnds[1].Ends["drain"] != 1 {
			t.Errorf("%+v", past.StreamEnds)
		}
		if len(past.Failures) != 2 || past.Failures[0].Cause != "drain" || !past.Failures[0].Time.After(past.Failures[1].Time) {
			t.Errorf("%+v", past.Failures)
		}
		time.Sleep(30 * time.Minute)
		if ends := h.Past().StreamEnds; len(ends) != 1 {
			t.Errorf("after an hour: %+v", ends)
		}
	})
}

func TestThePastIsBounded(t *testing.T) {
	h := new(History)
	r := httptest.NewRequest("POST", "/", nil)
	const many = 5000
	for i := range many {
		h.Note(r, &Outcome{End: cause.UpstreamReset, SandboxID: strconv.Itoa(i), Err: errors.New(strings.Repeat("x", 1000))})
		h.lasted(&Outcome{SandboxID: strconv.Itoa(i % 100)}, time.Now().Add(-time.Hour+time.Duration(i%100)*time.Second))
	}
	past := h.Past()
	if n := len(past.Failures); n != historyFailures || past.Failures[0].SandboxID != strconv.Itoa(many-1) || past.Failures[n-1].SandboxID != strconv.Itoa(many-n) {
		t.Errorf("%d failures, %+v first", n, past.Failures[0])
	}
	if len(past.Failures[0].Why) != maxWhy {
		t.Errorf("%d bytes of why", len(past.Failures[0].Why))
	}
	if n := len(past.Slowest); n != slowestSandboxes || past.Slowest[0].SandboxID != "0" || past.Slowest[0].Slowest < past.Slowest[1].Slowest {
		t.Errorf("%d slow, %+v", n, past.Slowest)
	}
}

// net/http cuts method and path out of the request line, which may be as long as
// the server allows, and anybody may send one.
func TestThePastHoldsNoRequestLine(t *testing.T) {
	h := new(History)
	const size = 1 << 20
	before := liveHeap()
	for i := range historyFailures {
		line := strings.Repeat(string(rune('A'+i%26)), size)
		out := Outcome{End: cause.HeaderTooLarge, Operation: routing.Operation{Name: line[1 : size/2]}, SandboxID: line[:10], Err: errors.New(line)}
		h.Note(&http.Request{Method: line[size/2:]}, &out)
		h.lasted(&out, time.Now().Add(-time.Minute))
	}
	past := h.Past()
	if grown := liveHeap() - before; grown > 8*size {
		t.Errorf("%d failures and as many slow calls hold %d bytes", historyFailures, grown)
	}
	if f := past.Failures[0]; len(f.Method) != MaxMethod || len(f.Operation) != MaxOperation || len(f.Why) != maxWhy || len(f.SandboxID) != 10 {
		t.Errorf("%+v", f)
	}
	runtime.KeepAlive(h)
}

// liveHeap is what the process holds, in bytes.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAFloodOfOneFailureHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(History)
		r := httptest.NewRequest("POST", "/", nil)
		note := func(end cause.Cause, id int) {
			time.Sleep(time.Millisecond)
			h.Note(r, &Outcome{End: end, SandboxID: strconv.Itoa(id)})
		}
		const flood = 10_000
		for i := range flood {
			note(cause.NoSuchRoute, i)
			if i == flood/2 {
				note(cause.RegistryUnavailable, 1)
				note(cause.UpstreamReset, 2)
			}
		}
		for i := range flood {
			note(cause.Unauthenticated, i)
		}
		seen := map[string]int{}
		failures := h.Past().Failures
		for i, f := range failures {
			seen[f.Cause]++
			if i > 0 && f.Time.After(failures[i-1].Time) {
				t.Errorf("number %d is later than the one before", i)
			}
		}
		if len(failures) != historyFailures || seen["registry_unavailable"] != 1 || seen["upstream_reset"] != 1 || seen["no_such_route"] != seen["unauthenticated"] {
			t.Errorf("%d are kept: %v", len(failures), seen)
		}
		if failures[0].SandboxID != strconv.Itoa(flood-1) {
			t.Errorf("the last one is not the first: %+v", failures[0])
		}
	})
}

func TestWhatIsCutStaysText(t *testing.T) {
	for s, want := range map[string]string{"": "", "abc": "abc", "abcd": "abcd", "abcde": "abcd", "abcé": "abc", "ab€": "ab"} {
		if got := Clip(s, 4); got != want {
			t.Errorf("Clip(%q) = %q", s, got)
		}
	}
}

func TestACallThatTookLongIsShownWithItsSandbox(t *testing.T) {
	h := new(History)
	g := newRig(t, func(o *Options) { o.History = h })
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		<-time.After(longCall + 200*time.Millisecond)
		answerWith(200, unary, "{}")(w, r)
	}
	g.send(t, "POST", stat, unary, "{}", "E2b-Sandbox-Id", "slow", "E2b-Sandbox-Port", "49983")
	if past := h.Past(); len(past.Slowest) != 1 || past.Slowest[0].SandboxID != "slow" || past.Slowest[0].Operation != "filesystem.Filesystem/Stat" || past.Slowest[0].Slowest < 1 {
		t.Errorf("%+v", past.Slowest)
	}
}

func TestTenThousandStreamsAreListedAndEnded(t *testing.T) {
	g := idleGateway(t)
	const n, sandboxes = 10_000, 100
	ended := make(chan struct{}, n)
	for i := range n {
		g.run(strconv.Itoa(i%sandboxes), func() { ended <- struct{}{} })
	}
	all := g.Streams(StreamFilter{})
	if len(all) != n {
		t.Fatalf("%d streams", len(all))
	}
	for i := range all[1:] {
		if all[i].ID >= all[i+1].ID {
			t.Fatal("they are not in their order")
		}
	}
	if some := g.Streams(StreamFilter{SandboxID: "7"}); len(some) != n/sandboxes {
		t.Errorf("%d streams of a sandbox", len(some))
	}
	if counts := g.StreamCounts(); counts[""] != n {
		t.Errorf("%v", counts)
	}
	if one := g.EndStreams(StreamFilter{ID: all[0].ID}); one != 1 {
		t.Errorf("%d were told to end", one)
	}
	<-ended
	if told := g.EndStreams(StreamFilter{}); told != n-1 {
		t.Errorf("%d were told to end", told)
	}
	for range n - 1 {
		<-ended
	}
}
