package chaos

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/loopback"
)

// known is a truth as a test wants it.
type known struct {
	alive   bool
	absence absence
	arrived int
	took    int64
	whole   bool
}

func (k known) live(string, time.Time, time.Time) bool              { return k.alive }
func (k known) absent(int, time.Time, time.Time, time.Time) absence { return k.absence }
func (k known) runs(string) int                                     { return k.arrived }
func (k known) body(string) (int64, bool)                           { return k.took, k.whole }
func usual() known                                                  { return known{alive: true, arrived: 1, whole: true} }
func told(call string, change func(*story)) *story {
	s := newStory("1-2-3", call, "sbx-a", 0)
	s.sent, s.ended, s.writes = s.begun, s.begun.Add(time.Second), 1
	s.status, s.header = http.StatusOK, http.Header{}
	if change != nil {
		change(s)
	}
	return s
}

// heard is the story of a stream of these bytes.
func heard(wanted int, wire string, end error) *story {
	return told("run", func(s *story) {
		s.wanted = wanted
		s.hearStream(io.MultiReader(strings.NewReader(wire), failing{end}))
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

const (
	first  = `{"event":{"start":{}},"witness":"sbx-a","id":"1-2-3","seq":0}`
	second = `{"event":{"end":{}},"witness":"sbx-a","id":"1-2-3","seq":1}`
)

func frames(flags byte, all ...string) (wire string) {
	for _, payload := range all {
		wire += string(envelope.Append(nil, flags, []byte(payload)))
	}
	return wire
}

// A judge that finds nothing is worth nothing: each thing that must not be is put before it once, and what may be is let go.
func TestTheJudgeFindsWhatMustNotBe(t *testing.T) {
	lost, end := errors.New("connection reset by peer"), frames(envelope.FlagEndStream, "{}")
	gone := frames(envelope.FlagEndStream, `{"error":{"code":"unavailable","message":"gone"}}`)
	both := frames(0, first, second)
	for name, tc := range map[string]struct {
		story *story
		truth known
		wrong string // begins the complaint; "" for none
	}{
		"an answer":                     {told("stat", nil), usual(), ""},
		"another's answer":              {told("stat", func(s *story) { s.names["sbx-b"] = true }), usual(), "another's"},
		"the answer to another":         {told("stat", func(s *story) { s.ids["1-2-4"] = true }), usual(), "another's"},
		"lines of another":              {told("read", func(s *story) { s.hearLines(lines("sbx-b", "1-2-3", 50)); s.header.Set(headerLength, "0") }), usual(), "another's"},
		"a message of another":          {heard(1, frames(0, strings.ReplaceAll(first, "sbx-a", "sbx-b"))+end, nil), usual(), "another's"},
		"twice":                         {told("stat", nil), known{alive: true, arrived: 2}, "twice"},
		"twice, by the client":          {told("stat", func(s *story) { s.writes = 2 }), known{alive: true, arrived: 2}, ""},
		"a stream":                      {heard(2, both+end, nil), usual(), ""},
		"a stream without an end":       {heard(2, both, nil), usual(), "raw end"},
		"a stream that is reset":        {heard(2, both, lost), usual(), "raw end"},
		"a stream that is torn":         {heard(2, both[:len(both)-5], nil), usual(), "raw end"},
		"a stream with two ends":        {heard(2, both+end+end, nil), usual(), "raw end"},
		"a stream with more":            {heard(2, both+end+"x", nil), usual(), "raw end"},
		"a stream that is reset at end": {heard(2, both+end, lost), usual(), "raw end"},
		"a stream with a hole":          {heard(2, frames(0, second)+end, nil), usual(), "another's"},
		"a short stream that is whole":  {heard(3, both+end, nil), usual(), "cut"},
		"a stream of a killed gateway":  {heard(2, both, lost), known{alive: true, arrived: 1, whole: true, absence: killed}, ""},
		"a stream of one that ends":     {heard(2, both, lost), known{alive: true, arrived: 1, whole: true, absence: away}, "raw end"},
		"a stream that its client left": {func() *story { s := heard(2, both, lost); s.left = true; return s }(), usual(), ""},
		"a live sandbox gone, stream":   {heard(2, gone, nil), usual(), "gone"},
		"a dead sandbox gone, stream":   {heard(2, gone, nil), known{arrived: 1}, ""},
		"a live sandbox gone, unary":    {told("stat", func(s *story) { s.status = 502 }), usual(), "gone"},
		"a live sandbox gone, health":   {told("health", func(s *story) { s.status = 502 }), usual(), "gone"},
		"a live sandbox gone, info":     {told("info", func(s *story) { s.status = 404 }), usual(), "gone"},
		"a live sandbox unavailable":    {told("stat", func(s *story) { s.status, s.text = 500, `{"code":"unavailable"}` }), usual(), "gone"},
		"a registry that is out":        {told("stat", func(s *story) { s.status = 503 }), usual(), ""},
		"a whole file":                  {told("read", func(s *story) { s.length = 7; s.header.Set(headerLength, "7") }), usual(), ""},
		"a cut file, taken for whole":   {told("read", func(s *story) { s.length = 6; s.header.Set(headerLength, "7") }), usual(), "cut"},
		"a cut file":                    {told("read", func(s *story) { s.length, s.err = 6, lost; s.header.Set(headerLength, "7") }), usual(), ""},
		"a cut body, taken for whole":   {told("write", func(s *story) { s.sends, s.left = 7, true }), known{arrived: 1, took: 6, whole: true}, "cut"},
		"no answer":                     {told("stat", func(s *story) { s.status, s.err = 0, lost }), usual(), "no answer"},
		"no answer, never read":         {told("stat", func(s *story) { s.status, s.err = 0, lost }), known{alive: true, absence: closing}, ""},
		"no answer, dropped":            {told("stat", func(s *story) { s.status, s.err = 0, lost }), known{alive: true, absence: closing, arrived: 1}, "no answer"},
		"no answer, no gateway":         {told("stat", func(s *story) { s.status, s.err = 0, lost }), known{alive: true, absence: away}, ""},
		"gone, and the gateway killed":  {told("stat", func(s *story) { s.status = 502 }), known{alive: true, arrived: 1, absence: killed}, "gone"},
		"gone, and the client left":     {told("stat", func(s *story) { s.status, s.left = 502, true }), usual(), "gone"},
		"a hang":                        {told("stat", func(s *story) { s.late = true }), usual(), "hang"},
		"an answer to nothing":          {told("stat", func(s *story) { s.sent = time.Time{} }), usual(), "answered"},
	} {
		got := judge(tc.story, tc.truth)
		if (len(got) == 0) != (tc.wrong == "") || !slices.ContainsFunc(append(got, ""), func(s string) bool { return strings.HasPrefix(s, tc.wrong) }) {
			t.Errorf("%s: %q, want %q", name, got, tc.wrong)
		}
	}
}

// The ledger must not be surer than anybody can be.
func TestTheLedgerDoubtsWhatItMust(t *testing.T) {
	l, now := newLedger(), time.Now()
	l.begin("a")
	later := func(d time.Duration) time.Time { return now.Add(grace + d) }
	if l.live("a", now, later(time.Second)) {
		t.Error("a sandbox is alive before it is registered")
	}
	if !l.live("a", later(time.Second), later(2*time.Second)) {
		t.Error("a sandbox that was registered is not alive")
	}
	l.doubt("a")
	l.doubt("a")
	l.certain("a")
	if l.live("a", later(time.Second), later(2*time.Second)) {
		t.Error("of two doubts the end of one is enough")
	}
	if l.settled("a") {
		t.Error("of two doubts the end of one is enough for good")
	}
	l.certain("a")
	if !l.settled("a") || l.settled("b") {
		t.Error("a sandbox is alive that nobody knows, or is not when all doubts have ended")
	}
}

// A gateway that ends politely, or is reloaded, owes an answer to whoever asked before; one that was killed owes nobody any.
func TestTheLedgerExcusesNoGatewayThatCouldHaveAnswered(t *testing.T) {
	l, before := newLedger(), time.Now().Add(-time.Second)
	l.down(0, true)
	l.down(1, false)
	within, after := time.Now(), time.Now().Add(time.Minute)
	for name, tc := range map[string]struct {
		gateway         int
		from, asked, to time.Time
		want            absence
	}{
		"over before it was killed":            {0, before, before, before.Add(time.Millisecond), there},
		"killed meanwhile":                     {0, before, before, after, killed},
		"asked of a killed one":                {0, within, within, after, killed},
		"stopped meanwhile":                    {1, before, before, after, there},
		"asked a moment before it stopped":     {1, before, within.Add(-moment / 2), after, closing},
		"began before it stopped, asked after": {1, before, within, after, away},
		"asked of a stopped one":               {1, within, within, after, away},
		"asked of another":                     {2, within, within, after, there},
	} {
		if got := l.absent(tc.gateway, tc.from, tc.asked, tc.to); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	l.up(1)
	if now := time.Now(); l.absent(1, now, now, after) != there {
		t.Error("a gateway that is back is away")
	}
}

// What is asked for where nothing is wrong must be served.
func TestARefusalWithoutAFaultIsFound(t *testing.T) {
	both, end := frames(0, first, second), frames(envelope.FlagEndStream, "{}")
	drained := frames(envelope.FlagEndStream, `{"error":{"code":"aborted","message":"later"}}`)
	for name, tc := range map[string]struct {
		story *story
		finds bool
	}{
		"an answer":             {told("stat", nil), false},
		"no content":            {told("health", func(s *story) { s.status = 204 }), false},
		"a stream":              {heard(2, both+end, nil), false},
		"a client that left":    {told("stat", func(s *story) { s.status, s.left = 0, true }), false},
		"a refusal":             {told("stat", func(s *story) { s.status = 503 }), true},
		"no answer":             {told("stat", func(s *story) { s.status = 0 }), true},
		"a stream that failed":  {heard(2, both+drained, nil), true},
		"an answer that breaks": {told("read", func(s *story) { s.err = io.ErrUnexpectedEOF }), true},
	} {
		if got := serves(tc.story); (len(got) > 0) != tc.finds {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Either may leak alone, and what pools keep is no leak.
func TestOneFileOrGoroutineTooManyIsALeak(t *testing.T) {
	idle := footprint{files: 30, goroutines: 50}
	for now, leaks := range map[footprint]bool{
		{30 + slackFiles, 50 + slackGoroutines}: false,
		{31 + slackFiles, 50}:                   true,
		{30, 51 + slackGoroutines}:              true,
	} {
		if now.exceeds(idle) != leaks {
			t.Errorf("%+v of %+v", now, idle)
		}
	}
}

// A seed means the same for ever, or nothing could be replayed.
func TestASeedDecidesThePlan(t *testing.T) {
	for seed := range uint64(200) {
		p := planOf(seed)
		if p.String() != planOf(seed).String() {
			t.Fatalf("two plans of seed %d", seed)
		}
		for _, s := range p.steps {
			if !s.fault.fits(p.kind) {
				t.Errorf("%s is in %s", s.fault.name, p)
			}
		}
	}
}

// Every fault happens in some seed, or it is written for nothing.
func TestEveryFaultHappens(t *testing.T) {
	happens := map[string]bool{}
	for seed := range uint64(1000) {
		for _, s := range planOf(seed).steps {
			happens[s.fault.name] = true
		}
	}
	for _, f := range faults {
		if !happens[f.name] {
			t.Errorf("no seed has: %s", f.name)
		}
	}
}

// What a wire does must be seen at its ends, or the faults are none.
func TestAWireBreaksAsItIsTold(t *testing.T) {
	echo := loopback.Serve(t, func(c net.Conn) {
		defer c.Close()
		_, _ = io.Copy(c, c)
	})
	w := newWire(t, echo)
	ask := func(limit time.Duration) (net.Conn, error) {
		c, err := net.Dial("tcp", w.address)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(limit))
		if _, err = io.WriteString(c, "x"); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return c, err
	}
	good, err := ask(patience)
	if err != nil {
		t.Fatal(err)
	}
	w.slow(30 * time.Millisecond)
	begun := time.Now()
	if _, err := ask(patience); err != nil || time.Since(begun) < 60*time.Millisecond {
		t.Errorf("slow: %v after %v", err, time.Since(begun))
	}
	w.heal()
	w.stall()
	if _, err := ask(100 * time.Millisecond); err == nil {
		t.Error("silent: there was an answer")
	}
	w.heal()
	w.halfClose()
	_ = good.SetDeadline(time.Now().Add(patience))
	if _, err := good.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("half-closed: %v", err)
	}
	whole, err := ask(patience)
	if err != nil {
		t.Fatal(err)
	}
	w.cut()
	if _, err := whole.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("cut: %v", err)
	}
	w.refuse()
	if _, err := ask(patience); err == nil {
		t.Error("refused: there was an answer")
	}
	w.heal()
	if _, err := ask(patience); err != nil {
		t.Errorf("healed: %v", err)
	}
}

// Only what a busy machine explains is tried again.
func TestOnlyBeingLateIsExcused(t *testing.T) {
	const story = "\n    request 0-1-1"
	late := []string{notServed(503) + story, notServed(`a stream ended "aborted"`) + story}
	if !lateOnly(late) {
		t.Error("not excused")
	}
	for _, wrong := range []string{
		notServed(502), notServed(500), notServed(`a stream ended "unavailable"`), notServed("EOF"),
		"another's; " + notServed(503), notServed(503) + "; twice", "leak: 1 requests go on behind the gateways",
	} {
		if lateOnly(append([]string{wrong + story}, late...)) {
			t.Errorf("excused: %s", wrong)
		}
	}
}
