package limit

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

// clock is a Limiter's time, which stands still unless it is moved.
type clock struct{ time.Time }

func limiter(perKey, perSandbox auth.Limits) (*Limiter, *clock) {
	l, c := New(perKey, perSandbox), &clock{time.Unix(1_800_000_000, 0)}
	l.now = func() time.Time { return c.Time }
	return l, c
}

func admitted(n int, take func() *Refusal) (ok int) {
	for range n {
		if take() == nil {
			ok++
		}
	}
	return ok
}

func TestRequestsAreBoundedBySecondAndKeyAndSandbox(t *testing.T) {
	l, c := limiter(auth.Limits{Requests: 10}, auth.Limits{Requests: 4})
	one := func() *Refusal { return l.Request(Who{Subject: "a", SandboxID: "s-1"}) }
	if n := admitted(20, one); n != 4 {
		t.Errorf("%d calls to one sandbox at once", n)
	}
	if n := admitted(20, func() *Refusal { return l.Request(Who{Subject: "b"}) }); n != 10 {
		t.Errorf("%d calls of one key at once", n)
	}
	r := l.Request(Who{Subject: "b"})
	if r == nil || r.After <= 0 || r.After > 100*time.Millisecond || r.Text != "Too many requests: this API key may make 10 a second" {
		t.Errorf("%+v", r)
	}
	c.Time = c.Add(r.After)
	if n := admitted(5, func() *Refusal { return l.Request(Who{Subject: "b"}) }); n != 1 {
		t.Errorf("%d after the time that it was told to wait", n)
	}
	if n := admitted(5, func() *Refusal { return l.Request(Who{Subject: "c", Limits: auth.Limits{Requests: 2}}) }); n != 2 {
		t.Errorf("%d with a limit of its own", n)
	}
	if n := admitted(50, func() *Refusal { return l.Request(Who{Subject: "d", Limits: auth.Limits{Requests: -1}}) }); n != 50 {
		t.Errorf("%d without a limit", n)
	}
}

func TestATinyRateIsALimit(t *testing.T) {
	for _, rate := range []float64{1e-6, 1e-9, 1e-12, 1e-300} {
		l, c := limiter(auth.Limits{Requests: rate, Creates: rate}, auth.Limits{})
		if n := admitted(10, func() *Refusal { return l.Request(Who{Subject: "a"}) }); n != 1 {
			t.Errorf("%d calls at %g a second", n, rate)
		}
		c.Time = c.Add(time.Hour)
		if n := admitted(10, func() *Refusal { return l.Create(Who{Subject: "b"}) }); n != 1 {
			t.Errorf("%d creates at %g a minute", n, rate)
		}
	}
}

func TestAMinutesCreatesMayComeAtOnce(t *testing.T) {
	l, c := limiter(auth.Limits{Creates: 6}, auth.Limits{})
	create := func() *Refusal { return l.Create(Who{Subject: "a"}) }
	if n := admitted(10, create); n != 6 {
		t.Errorf("%d at once", n)
	}
	c.Time = c.Add(10 * time.Second)
	if n := admitted(10, create); n != 1 {
		t.Errorf("%d more after a sixth of a minute", n)
	}
	l, _ = limiter(auth.Limits{Creates: 0.5}, auth.Limits{})
	if n := admitted(10, func() *Refusal { return l.Create(Who{Subject: "a"}) }); n != 1 {
		t.Errorf("%d of one in two minutes", n)
	}
}

func TestStreamsAreCountedWhileTheyLive(t *testing.T) {
	l, _ := limiter(auth.Limits{Streams: 3}, auth.Limits{Streams: 2})
	a1, a2 := Who{Subject: "a", SandboxID: "s-1"}, Who{Subject: "a", SandboxID: "s-2"}
	var open []Stream
	for _, who := range []Who{a1, a1, a2} {
		s, r := l.Open(who)
		if r != nil {
			t.Fatalf("%+v", r)
		}
		open = append(open, s)
	}
	if _, r := l.Open(a2); r == nil || r.After != time.Second || r.Text != "Too many streams: this API key may have 3 at a time" {
		t.Errorf("%+v", r)
	}
	open[2].Close()
	open[2].Close() // counts once
	if _, r := l.Open(a1); r == nil || r.Text != "Too many streams: this sandbox may have 2 at a time" {
		t.Errorf("%+v", r)
	}
	// The refused one took no place of its key.
	if _, r := l.Open(a2); r != nil {
		t.Errorf("%+v", r)
	}
}

func TestStrangersStreamsUseUpNothingOfTheOwners(t *testing.T) {
	l := New(auth.Limits{}, auth.Limits{Streams: 1})
	stranger, owner := Who{SandboxID: "a", Stranger: true}, Who{SandboxID: "a", Subject: "alice"}
	first, r := l.Open(stranger)
	if r != nil {
		t.Fatal(r.Text)
	}
	if _, r := l.Open(stranger); r == nil {
		t.Error("two strangers have a stream each")
	}
	if _, r := l.Open(owner); r != nil {
		t.Error(r.Text)
	}
	first.Close()
	if _, r := l.Open(stranger); r != nil {
		t.Error(r.Text)
	}
}

func TestTheShorterBodyLimitHolds(t *testing.T) {
	l, _ := limiter(auth.Limits{Body: 100}, auth.Limits{Body: 50})
	for who, want := range map[Who]int64{
		{Subject: "a"}:                 100,
		{Subject: "a", SandboxID: "s"}: 50,
		{Subject: "a", Limits: auth.Limits{Body: 10}, SandboxID: "s"}: 10,
		{Subject: "a", Limits: auth.Limits{Body: -1}}:                 0,
		{Subject: "a", Limits: auth.Limits{Body: -1}, SandboxID: "s"}: 50,
	} {
		if got := l.Body(who); got != want {
			t.Errorf("%+v: %d, want %d", who, got, want)
		}
	}
}

// Two gateways that tell each other admit together what one alone would.
func TestGatewaysShareALimit(t *testing.T) {
	a, clockA := limiter(auth.Limits{Requests: 10, Creates: 6, Streams: 3}, auth.Limits{})
	b, clockB := limiter(auth.Limits{Requests: 10, Creates: 6, Streams: 3}, auth.Limits{})
	who := Who{Subject: "x"}
	tell := func() {
		for _, way := range []struct{ from, to *Limiter }{{a, b}, {b, a}} {
			usage := way.from.Report()
			usage.Gateway = fmt.Sprintf("%p", way.from)
			way.to.Heard(usage)
		}
	}
	admitted(10, func() *Refusal { return a.Request(who) })
	admitted(4, func() *Refusal { return a.Create(who) })
	s1, _ := a.Open(who)
	s2, _ := a.Open(who)
	tell()
	if n := admitted(10, func() *Refusal { return b.Request(who) }); n != 0 {
		t.Errorf("%d requests, all were made at the other gateway", n)
	}
	if n := admitted(10, func() *Refusal { return b.Create(who) }); n != 2 {
		t.Errorf("%d creates, want 2", n)
	}
	if n := admitted(5, func() *Refusal { _, r := b.Open(who); return r }); n != 1 {
		t.Errorf("%d streams, want 1", n)
	}
	s1.Close()
	tell()
	if n := admitted(5, func() *Refusal { _, r := b.Open(who); return r }); n != 1 {
		t.Errorf("%d streams once one was closed, want 1", n)
	}
	// A gateway that is gone has no streams.
	s2.Close()
	clockA.Time, clockB.Time = clockA.Add(time.Minute), clockB.Add(time.Minute)
	a.Report()
	if n := admitted(5, func() *Refusal { _, r := a.Open(who); return r }); n != 3 {
		t.Errorf("%d streams beside a gateway that fell silent, want 3", n)
	}
}

func TestWhoDoesNothingIsForgotten(t *testing.T) {
	l, c := limiter(auth.Limits{Requests: 10, Streams: 3}, auth.Limits{Requests: 5})
	s, _ := l.Open(Who{Subject: "busy"})
	for i := range 100 {
		l.Request(Who{Subject: fmt.Sprint("k", i), SandboxID: fmt.Sprint("s", i)})
	}
	size := func() (n int) {
		for _, in := range []*table{&l.keys, &l.sandboxes} {
			for i := range in.shards {
				n += len(in.shards[i].uses)
			}
		}
		return n
	}
	if l.Report(); size() != 201 {
		t.Errorf("%d while their second lasts", size())
	}
	c.Time = c.Add(2 * time.Second)
	if usage := l.Report(); size() != 1 || usage.Keys["busy"].Streams != 1 {
		t.Errorf("%d afterwards, %+v", size(), usage)
	}
	s.Close()
	if l.Report(); size() != 0 || !l.Report().Quiet() {
		t.Errorf("%d at the end", size())
	}
}

// Without anybody who reports, too.
func TestTheCountersOfManyWhoCameOnceAreForgotten(t *testing.T) {
	l, c := limiter(auth.Limits{Requests: 10}, auth.Limits{})
	for i := range 20_000 {
		c.Time = c.Add(time.Millisecond)
		l.Request(Who{Subject: fmt.Sprint("k", i)})
	}
	n := 0
	for i := range l.keys.shards {
		n += len(l.keys.shards[i].uses)
	}
	if most := 2 * 64 * len(l.keys.shards); n > most {
		t.Errorf("%d are remembered of whom none did anything for a second, want at most %d", n, most)
	}
}

// What a busy sandbox is refused takes nothing of its owner's other ones, and the
// other way round.
func TestARefusedCallCountsNowhere(t *testing.T) {
	l, _ := limiter(auth.Limits{Requests: 10}, auth.Limits{Requests: 4})
	if n := admitted(100, func() *Refusal { return l.Request(Who{Subject: "a", SandboxID: "busy"}) }); n != 4 {
		t.Errorf("%d", n)
	}
	for _, id := range []string{"s-1", "s-2"} {
		if n := admitted(3, func() *Refusal { return l.Request(Who{Subject: "a", SandboxID: id}) }); n != 3 {
			t.Errorf("%s: %d", id, n)
		}
	}
	if n := admitted(9, func() *Refusal { return l.Request(Who{Subject: "a", SandboxID: "s-3"}) }); n != 0 {
		t.Errorf("%d more than the key may", n)
	}
	if n := admitted(9, func() *Refusal { return l.Request(Who{Subject: "b", SandboxID: "s-3"}) }); n != 4 {
		t.Errorf("%d, the refused ones were counted", n)
	}
}

func TestCountersStandUpToEverybodyAtOnce(t *testing.T) {
	l, _ := limiter(auth.Limits{Requests: 500, Streams: 10}, auth.Limits{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	calls, streams := 0, 0
	for range 8 {
		wg.Go(func() {
			n, s := 0, 0
			for range 200 {
				if l.Request(Who{Subject: "a"}) == nil {
					n++
				}
				if _, r := l.Open(Who{Subject: "a"}); r == nil {
					s++
				}
				l.Report()
			}
			mu.Lock()
			calls, streams = calls+n, streams+s
			mu.Unlock()
		})
	}
	wg.Wait()
	if calls != 500 || streams != 10 {
		t.Errorf("%d calls and %d streams", calls, streams)
	}
}

func BenchmarkRequest(b *testing.B) {
	l := New(auth.Limits{Requests: 1e9}, auth.Limits{Requests: 1e9})
	who := Who{Subject: "alice", SandboxID: "0123456789abcdef0123456789abcdef"}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			l.Request(who)
		}
	})
}
