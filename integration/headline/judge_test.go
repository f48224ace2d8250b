package headline

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"
)

// The judge must be able to say no: each wrong outcome has its column.
func TestTheJudgeKnowsRightFromWrong(t *testing.T) {
	const (
		pyLost     = "Code.aborted: The connection to sandbox x was lost; the sandbox may still be running, but the outcome of this call is unknown"
		pyGone     = "The sandbox x was not found: it was killed, it expired, or it never existed: This error is likely due to sandbox timeout."
		pyPaused   = "Code.failed_precondition: The sandbox x is paused; it must be resumed before it can be used"
		pyUntold   = "Code.aborted: The sandbox x is not running; whether it is paused or was killed cannot be found out at the moment"
		pyDeadline = "The time allowed for this call ran out: This error is likely due to exceeding 'timeout'"
	)
	begun := time.Unix(1000, 0)
	in := func(d time.Duration) time.Time { return begun.Add(d) }
	quick := command{stdout: "hi\n", timeout: untimed}
	raise := func(class, text string) outcome { return outcome{Error: &failure{class, true, text}} }
	reset := command{stdout: "hi\n", timeout: untimed, kill: byReset}
	silenced := command{stdout: "hi\n", timeout: 2 * time.Second, kill: bySilence}
	doomed := command{stdout: "hi\n", timeout: untimed, kill: byDelete}
	killed := facts{starts: 1, death: byDelete, diedAt: in(time.Second), dueAt: in(time.Minute)}
	paused := facts{starts: 1, death: byPause, diedAt: in(time.Second), dueAt: in(time.Minute)}
	ended := facts{starts: 1, ended: true, endAt: begun, dueAt: in(time.Minute)}
	after := func(o outcome, d time.Duration) outcome { o.took = d; return o }
	for name, tc := range map[string]struct {
		c    command
		f    facts
		o    outcome
		want fault
	}{
		"the result":                    {quick, ended, outcome{Stdout: "hi\n"}, isRight},
		"half the result":               {quick, ended, outcome{Stdout: "h"}, isWrong},
		"another exit code":             {quick, ended, outcome{Stdout: "hi\n", Exit: 1}, isWrong},
		"a result that nobody has sent": {quick, facts{starts: 1}, outcome{Stdout: "hi\n"}, isWrong},
		"nothing":                       {quick, ended, outcome{hang: true}, isHang},
		"an exception after the result": {quick, ended, raise("SandboxException", pyLost), lostIt},
		"an exception for no reason":    {quick, facts{starts: 1}, raise("SandboxException", pyLost), isWrong},

		"reset: lost":                                  {reset, facts{starts: 1, fired: true}, raise("SandboxException", pyLost), isRight},
		"reset: lost, in JavaScript":                   {reset, facts{starts: 1, fired: true}, raise("SandboxError", "10: [aborted] it may still be running"), isRight},
		"reset: gone":                                  {reset, facts{starts: 1, fired: true}, raise("TimeoutException", pyGone), isWrong},
		"reset: a bare exception":                      {reset, facts{starts: 1, fired: true}, outcome{Error: &failure{"ReadError", false, "reset"}}, isForeign},
		"reset: the right text of an unexpected class": {reset, facts{starts: 1, fired: true}, raise("RateLimitException", pyLost), isWrong},
		"reset after the result: lost": {reset, facts{starts: 1, fired: true, ended: true, endAt: begun, dueAt: in(time.Minute)},
			raise("SandboxException", pyLost), lostIt},

		"silence: deadline":             {silenced, facts{starts: 1, fired: true, dueAt: in(2 * time.Second)}, after(raise("TimeoutException", pyDeadline), 2*time.Second), isRight},
		"silence: deadline, too early":  {silenced, facts{starts: 1, fired: true, dueAt: in(time.Second)}, after(raise("TimeoutException", pyDeadline), time.Millisecond), isWrong},
		"silence: lost":                 {silenced, facts{starts: 1, fired: true, dueAt: in(time.Second)}, after(raise("SandboxException", pyLost), 2*time.Second), isWrong},
		"silence after the result":      {silenced, facts{starts: 1, fired: true, ended: true, endAt: begun, dueAt: in(2 * time.Second)}, after(raise("TimeoutException", pyDeadline), 2*time.Second), lostIt},
		"the end came with the timeout": {silenced, facts{starts: 1, fired: true, ended: true, endAt: in(2 * time.Second), dueAt: in(2 * time.Second)}, after(raise("TimeoutException", pyDeadline), 2*time.Second), isRight},

		"delete: gone":                     {doomed, killed, raise("TimeoutException", pyGone), isRight},
		"delete: gone, newest Python":      {doomed, killed, raise("SandboxNotRunningException", pyGone), isRight},
		"delete: gone, JavaScript's words": {doomed, killed, raise("SandboxNotFoundError", "Sandbox is probably not running anymore"), isRight},
		"delete: paused":                   {doomed, killed, raise("SandboxException", pyPaused), isWrong},
		"delete: lost":                     {doomed, killed, raise("SandboxException", pyLost), isWrong},
		"delete, the record stays long: lost": {doomed, facts{starts: 1, death: byDelete, diedAt: in(time.Second), dueAt: in(time.Minute), evicted: time.Second},
			raise("SandboxException", pyLost), isRight},
		"delete: untold":   {doomed, killed, raise("SandboxException", pyUntold), isWrong},
		"no death: untold": {reset, facts{starts: 1, fired: true}, raise("SandboxException", pyUntold), isWrong},
		"ended: untold":    {quick, ended, raise("SandboxException", pyUntold), lostIt},
		"pause: paused":    {doomed, paused, raise("SandboxException", pyPaused), isRight},
		"pause: gone":      {doomed, paused, raise("TimeoutException", pyGone), isWrong},
		"delete just before the end": {doomed, facts{starts: 1, ended: true, endAt: in(2 * time.Second), dueAt: in(time.Minute), death: byDelete, diedAt: in(time.Second)},
			raise("TimeoutException", pyGone), isRight},
		"delete just after the end": {doomed, facts{starts: 1, ended: true, endAt: begun, dueAt: in(time.Minute), death: byDelete, diedAt: in(time.Second)},
			raise("TimeoutException", pyGone), lostIt},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(tc.c, tc.f, tc.o); got != tc.want {
				t.Errorf("%q, want %q: %v; %v", got, tc.want, tc.f, tc.o)
			}
		})
	}
}

func TestTheJudgeKnowsWhatCannotBeKnown(t *testing.T) {
	doomed := command{stdout: "hi\n", timeout: untimed, kill: byDelete}
	killed := facts{starts: 1, death: byDelete, diedAt: time.Unix(1001, 0), dueAt: time.Unix(1060, 0)}
	slow := killed
	slow.evicted = time.Second
	for text, want := range map[string][2]bool{
		"the sandbox may still be running":                                        {false, true},
		"not running; whether it is paused or was killed cannot be found out now": {false, true},
		"The sandbox x was not found":                                             {false, false},
	} {
		class := "SandboxException"
		if strings.HasSuffix(text, "was not found") {
			class = "TimeoutException"
		}
		o := outcome{Error: &failure{class, true, text}}
		for i, f := range []facts{killed, slow} {
			if got := judge(doomed, f, o) == isRight && unknowable(doomed, f, o); got != want[i] {
				t.Errorf("%q, evicted after %v: %t", text, f.evicted, got)
			}
		}
	}
}

func TestWhatWasSentIsReadToTheByte(t *testing.T) {
	envelope := func(flags byte, payload string) string {
		return string([]byte{flags}) + string(binary.BigEndian.AppendUint32(nil, uint32(len(payload)))) + payload
	}
	before := envelope(0, `{"event":{"start":{"pid":7}}}`) + envelope(0, `{"event":{"data":{"stdout":"ImVuZCI6"}}}`)
	body := before + envelope(0, `{"event":{"end":{"exited":true,"status":"exit status 0"}}}`)
	whole := body + envelope(2, "{}")
	for n := range len(whole) + 1 {
		got := read([]byte(whole[:n]))
		boundary := slices.Contains([]int{0, len(envelope(0, `{"event":{"start":{"pid":7}}}`)), len(before), len(body), len(whole)}, n)
		if got.ended != (n >= len(body)) || got.within == boundary {
			t.Errorf("after %d bytes: %+v", n, got)
		}
	}
}

func TestTheEndOfALifeIsItsLastCommands(t *testing.T) {
	for _, l := range newPlanner(7, 1, "x").lives(100) {
		end := l.end()
		if len(end.slots) != len(l.slots) || end.death != l.death || end.evict != l.evict {
			t.Errorf("%+v became %+v", l, end)
		}
		for i, commands := range l.slots {
			if len(end.slots[i]) != min(1, len(commands)) || len(commands) > 0 && end.slots[i][0] != commands[len(commands)-1] {
				t.Errorf("%v became %v", commands, end.slots[i])
			}
		}
	}
}

func TestASeedDrawsThePlanAgain(t *testing.T) {
	draw := func(seed uint64) []life { return newPlanner(seed, 1, "x").lives(1000) }
	text := func(lives []life) string {
		var b strings.Builder
		for _, l := range lives {
			for _, c := range slices.Concat(l.slots...) {
				b.WriteString(c.String() + "\n")
			}
		}
		return b.String()
	}
	once := text(draw(7))
	if n := strings.Count(once, "\n"); n != 1000 {
		t.Errorf("%d commands were drawn, want 1000", n)
	}
	if text(draw(7)) != once {
		t.Error("the same seed drew another plan")
	}
	if text(draw(8)) == once {
		t.Error("another seed drew the same plan")
	}
}
