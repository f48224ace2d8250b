package bench

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// What runs with the tests is the generator and the contestants that are built
// from this checkout; no figure is looked at.

// light is a scene on one core, with nothing but goproxy.
func light(t *testing.T) *scene {
	t.Helper()
	core := processors(t)[0]
	if built == "" {
		built = goBuild(t, filepath.Join(scratch, "goproxy"), "github.com/caddy-e2b/gateway/integration/bench/goproxy")
	}
	return newScene(t, cores{core, core}, programs{goproxy: built})
}

// built is the path of goproxy, in scratch, which is removed in the end.
var built, scratch string

func TestEveryLoadGetsItsAnswersThroughGo(t *testing.T) {
	s := light(t)
	for _, c := range s.start(harness.Cleartext, library, libraryRedis, none) {
		if n := s.callAll(c, s.dialAll(c, harness.Cleartext), 20*time.Millisecond); n < connections {
			t.Errorf("%s: %d calls on %d connections", c.kind, n, connections)
		}
		s.callEach(c, 20, func(int) []byte { return callH1(c, sandbox) })
		ids := s.makeSandboxes(0, 20)
		clients := s.connectFor(c, ids)
		s.callFor(c, clients[:3], ids)
		if n := len(s.callAt(c, s.connectFor(c, ids), 20*time.Millisecond)); n != 20 {
			t.Errorf("%s: %d calls in 20 ms", c.kind, n)
		}
		s.stream(c, s.connectStreamers(c, harness.Cleartext, 100), 100)
		s.openIdle(c, harness.Cleartext, 20)()
		k, err := connectH1(c)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		const size = 1<<20 + 1
		if err := errors.Join(k.download(c, size), k.upload(c, size)); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
	for _, c := range s.start(harness.TLS2, library, libraryRedis) {
		if n := s.callAll(c, s.dialAll(c, harness.TLS2), 20*time.Millisecond); n < connections {
			t.Errorf("%s: %d calls over HTTP/2", c.kind, n)
		}
		s.stream(c, s.connectStreamers(c, harness.TLS2, 100), 100)
		s.openIdle(c, harness.TLS2, 20)()
	}
}

func TestRedisIsAskedOnceForEachRequestByTheProxyThatAsks(t *testing.T) {
	s := light(t)
	c := s.start(harness.Cleartext, libraryRedis)[0]
	before := s.redisCalls()["get"]
	s.callEach(c, 50, func(int) []byte { return callH1(c, sandbox) })
	if n := s.redisCalls()["get"] - before; n != 50 {
		t.Errorf("%d GETs for 50 requests", n)
	}
	k, err := connectH1(c)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	k.request = callH1(c, "nobody")
	if err := k.call(); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("a sandbox without a record: %v", err)
	}
}

func TestMessagesTellWhenTheyWereSent(t *testing.T) {
	s := light(t)
	r := newReport(s.cores)
	s.paced(r, harness.Cleartext, 20*time.Millisecond, library, none)
	if len(r.tables) != 1 || len(r.tables[0].rows) != 2 || strings.Contains(strings.Join(r.tables[0].rows[0], " "), "–") {
		t.Errorf("%v", r.tables)
	}
}

// An answer that is not the upstream's to the byte is an error, and ends the run.
func TestAnotherAnswerIsNoticed(t *testing.T) {
	for name, text := range map[string]string{
		"status":  "HTTP/1.1 500 Oops\r\nContent-Length: 80\r\n\r\n" + string(answer),
		"body":    "HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n" + strings.ToUpper(string(answer)),
		"longer":  "HTTP/1.1 200 OK\r\nContent-Length: 81\r\n\r\n" + string(answer) + "!",
		"shorter": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + string(answer[:9]),
		"nothing": "",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer l.Close()
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				fmt.Fprint(c, text)
			}
		}()
		c := &contestant{address: l.Addr().String()}
		k, err := connectH1(c)
		if err != nil {
			t.Fatal(err)
		}
		k.request = callH1(c, sandbox)
		if err := k.call(); err == nil {
			t.Errorf("%s: %q is taken for the answer", name, text)
		}
		k.Close()
	}
}

func TestAnotherStreamIsNoticed(t *testing.T) {
	good := strings.Repeat(string(message), 3) + string(endStream)
	for name, text := range map[string]string{
		"cut":          good[:len(good)-1],
		"longer":       good + "x",
		"one too few":  good[len(message):],
		"one too many": string(message) + good,
		"one wrong":    strings.Replace(good, "QUJD", "QUJE", 1),
	} {
		want := streamOf(3)
		if err := want.take([]byte(text)); err == nil && want.done() {
			t.Errorf("%s: taken for the stream", name)
		}
	}
	for _, size := range []int{1, 7, len(message), len(good)} {
		want := streamOf(3)
		for at := 0; at < len(good); at += size {
			if err := want.take([]byte(good[at:min(at+size, len(good))])); err != nil {
				t.Fatalf("in pieces of %d: %v", size, err)
			}
		}
		if !want.done() {
			t.Errorf("in pieces of %d it is not whole", size)
		}
	}
}

func TestFiguresAreMediansAndRatiosOfPairs(t *testing.T) {
	s := samples{gateway: {stock: {10, 30, 20}, nginx: {70, 80}}, stock: {gateway: {5, 10, 20}}}
	if s.of(gateway) != 30 || s.of(stock) != 10 || s.ratio(gateway, stock) != 2 || s.ratio(stock, gateway) != 0.5 {
		t.Errorf("medians %v and %v, ratios %v and %v", s.of(gateway), s.of(stock), s.ratio(gateway, stock), s.ratio(stock, gateway))
	}
	if q := quantile([]float64{4, 1, 3, 2}, 0.99); q != 4 {
		t.Errorf("the 99th percentile of 1, 2, 3, 4 is %v", q)
	}
	var order []string
	takeTurns([]*contestant{{kind: "a"}, {kind: "b"}, {kind: "c"}}, 2, func(t turn) { order = append(order, string(t.kind+t.beside)) })
	if got := strings.Join(order, " "); got != "ab ba ac ca ca ac ba ab" {
		t.Errorf("turns are taken so: %s", got)
	}
}

func TestAPromiseOfWhichNothingWasMeasuredIsNotMet(t *testing.T) {
	for _, p := range []promise{
		{value: math.NaN(), least: 1}, {value: math.NaN(), most: 1}, {value: 0.9, least: 1}, {value: 1.1, most: 1},
	} {
		if p.met() {
			t.Errorf("%+v is met", p)
		}
	}
	for _, p := range []promise{{value: 1, least: 1}, {value: 1, most: 1}} {
		if !p.met() {
			t.Errorf("%+v is missed", p)
		}
	}
}

func TestTheClockOfAProcessIsItsOwn(t *testing.T) {
	s := light(t)
	c := s.start(harness.Cleartext, library)[0]
	const work = 20 * time.Millisecond
	idle := s.during(c, func() {
		for begun := processorTime(t, os.Getpid()); processorTime(t, os.Getpid())-begun < work; {
		}
	})
	if idle.cpu >= work {
		t.Errorf("a proxy that does nothing has used %v while this process worked for %v", idle.cpu, work)
	}
	callers := s.dialAll(c, harness.Cleartext)
	if d := s.during(c, func() { s.callAll(c, callers, 20*time.Millisecond) }); d.cpu == 0 {
		t.Error("a proxy that worked has used no time")
	}
}

func TestATurnIsPlayedUntilTheHostLeavesTheCoreAlone(t *testing.T) {
	stat := []byte("cpu  9 9 9 9 9 9 9 900 0 0\ncpu0 1 2 3 4 5 6 7 80 0 0\ncpu1 1 2 3 4 5 6 7 123 0 0\nintr 7\n")
	if took, err := stealOf(stat, 1); took != 1230*time.Millisecond || err != nil {
		t.Errorf("of processor 1 was taken %v (%v)", took, err)
	}
	for _, bad := range []string{"", "cpu1 1 2 3", "cpu1 1 2 3 4 5 6 7 x 0 0", "cpu10 1 2 3 4 5 6 7 8 0 0"} {
		if took, err := stealOf([]byte(bad), 1); err == nil {
			t.Errorf("of %q: %v", bad, took)
		}
	}
	for _, c := range []struct {
		took            []time.Duration // by the host, turn by turn
		best, disturbed int
	}{
		{[]time.Duration{spareOfTurn}, 1, 0},
		{[]time.Duration{spareOfTurn + 1, 0}, 2, 0},
		{[]time.Duration{7 * spareOfTurn, 3 * spareOfTurn, 2 * spareOfTurn, 5 * spareOfTurn}, 3, 1},
	} {
		var sum time.Duration
		played := 0
		s := &scene{TB: t, host: func() time.Duration { return sum }}
		best := undisturbed(s, time.Second, func() int {
			sum += c.took[played]
			played++
			return played
		})
		if best != c.best || played != len(c.took) || s.disturbed != c.disturbed {
			t.Errorf("host takes %v: turn %d of %d counts, %d disturbed", c.took, best, played, s.disturbed)
		}
	}
}

// spareOfTurn is how much of a turn of a second the host may take.
const spareOfTurn = time.Duration(spare * 1e9)
