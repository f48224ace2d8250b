package headline

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcome is what a program saw of a command.
type outcome struct {
	Stdout string   `json:"stdout"`
	Exit   int      `json:"exit"`
	Error  *failure `json:"error"`
	// hang: nothing was seen, long after the last moment.
	hang bool
	took time.Duration
}

// failure is an exception.
type failure struct {
	Class string `json:"class"`
	// Sandbox tells whether it is one of the SDK's own sandbox exceptions.
	Sandbox bool   `json:"sandbox"`
	Text    string `json:"text"`
}

func (o outcome) String() string {
	switch {
	case o.hang:
		return fmt.Sprintf("nothing within %v", o.took)
	case o.Error != nil:
		return fmt.Sprintf("%s: %s (after %v)", o.Error.Class, o.Error.Text, o.took)
	default:
		return fmt.Sprintf("%q, exit code %d (after %v)", o.Stdout, o.Exit, o.took)
	}
}

// facts are what the double did to a command.
type facts struct {
	// fired: the fault that was planned for this command has struck.
	fired bool
	// ended: the whole end event was sent; endAt is when.
	ended bool
	endAt time.Time
	// dueAt is when the command's timeout runs out, counted from the moment at which the program was told to run it.
	dueAt time.Time
	// sent is all that was sent of the answer's body. within: its last byte lies inside an envelope.
	sent   []byte
	within bool
	// death is what became of the sandbox while the command ran, from the moment diedAt on, or byNothing.
	death  killing
	diedAt time.Time
	// evicted is how long the sandbox's record outlived its container, and how long the double took to say so.
	evicted time.Duration
	// starts is how often the command arrived.
	starts int
}

func (f facts) String() string {
	s := fmt.Sprintf("arrived %d times, fault fired: %v, sent %q, with the end event: %v", f.starts, f.fired, f.sent, f.ended)
	if f.death != byNothing {
		s += fmt.Sprintf(", the sandbox died by %s at %.3f, its record %v later", f.death, float64(f.diedAt.UnixMicro())/1e6, f.evicted)
		if f.ended {
			s += fmt.Sprintf(" %v after the end event", f.diedAt.Sub(f.endAt))
		}
	}
	return s
}

// reason is a true cause as the client is told it.
type reason string

const (
	isLost reason = "lost"
	// isRegistered: ROCK refused the call, although its own record says that the sandbox runs.
	isRegistered reason = "registered"
	isGone       reason = "gone"
	isExpired    reason = "expired"
	isPaused     reason = "paused"
	isDeadline   reason = "deadline"
	// isUntold: the sandbox does not run, and nobody said in time what it died of.
	isUntold reason = "untold"
)

// told finds the reason in an exception of the SDK: class and text must both say it.
func (e failure) told() reason {
	base := e.Class == "SandboxException" || e.Class == "SandboxError"
	timeout := e.Class == "TimeoutException" || e.Class == "TimeoutError"
	switch {
	case base && strings.Contains(e.Text, "may still be running"):
		return isLost
	case base && strings.Contains(e.Text, "is still registered as running"):
		return isRegistered
	case base && strings.Contains(e.Text, "whether it is paused or was killed cannot be found out"):
		return isUntold
	case base && strings.Contains(e.Text, "is paused"):
		return isPaused
	case (timeout || e.Class == "SandboxNotRunningException") && strings.Contains(e.Text, "its time ran out"):
		return isExpired
	case (timeout || e.Class == "SandboxNotRunningException") && strings.Contains(e.Text, "was not found"):
		return isGone
	case e.Class == "SandboxNotFoundError" && strings.Contains(e.Text, "not running anymore"):
		return isGone // JavaScript's own words when a stream begins with this
	case timeout && (strings.Contains(e.Text, "exceeding 'timeout'") || strings.Contains(e.Text, "exceeding 'timeoutMs'")):
		return isDeadline
	default:
		return ""
	}
}

// fault is a wrong outcome: a column of the table.
type fault string

const (
	isRight   fault = ""
	isForeign fault = "foreign exception"
	isHang    fault = "hang"
	lostIt    fault = "lost result"
	isWrong   fault = "wrong cause"
)

// judge holds an outcome against what the double did.
//
// When a kill races with the command's own end, the exact result and the cause of the kill are both right. It does not race
// when the end event was sent before the kill: then only the result is.
func judge(c command, f facts, o outcome) fault {
	switch {
	case o.hang:
		return isHang
	case o.Error == nil && (!f.ended || o.Stdout != c.stdout || o.Exit != c.exit):
		return isWrong
	case o.Error == nil:
		return isRight
	case !o.Error.Sandbox:
		return isForeign
	}
	right := reasons(c, f, o.took)
	if f.ended && f.endAt.Add(noticed(c)).Before(f.dueAt) && (f.death == byNothing || f.endAt.Before(f.diedAt)) {
		return lostIt
	}
	if !slices.Contains(right, o.Error.told()) {
		return isWrong
	}
	return isRight
}

// knowable is how long it may take until the double says that a sandbox is gone, without anybody taking it for alive: the gateway
// waits a second for the record of a broken stream's sandbox to go, and needs some of it to ask. The plan evicts sooner; a busy
// machine may not, and may not answer in time either, such as whether a sandbox without a record is paused.
const knowable = 350 * time.Millisecond

// noticed is how long before the timeout the end event must have been sent so that its result is due. That nothing follows it is
// known only after a while.
func noticed(c command) time.Duration {
	if c.kill == bySilence {
		return time.Second
	}
	return 0
}

// reasons are the true causes.
func reasons(c command, f facts, took time.Duration) (right []reason) {
	if c.timeout < untimed && took >= c.timeout {
		right = append(right, isDeadline)
	}
	if f.fired && c.kill != bySilence {
		right = append(right, isLost)
	}
	if f.death != byNothing && f.evicted > knowable {
		right = append(right, isLost, isRegistered, isGone, isUntold)
	}
	switch f.death {
	case byDelete:
		right = append(right, isGone)
	case byPause:
		right = append(right, isPaused)
	case byExpiry:
		right = append(right, isExpired)
		if c.late { // JavaScript has one sentence of its own for both
			right = append(right, isGone)
		}
	}
	return right
}

// unknowable reports an outcome that is right only because the double was slow.
func unknowable(c command, f facts, o outcome) bool {
	f.evicted = 0
	return o.Error != nil && judge(c, f, o) != isRight
}

// killedBy names what has killed a command, for the table; byNothing if it got away.
func killedBy(c command, f facts, o outcome) killing {
	switch {
	case f.fired && f.within && (c.kill == byReset || c.kill == byFIN):
		return midEnvelope
	case f.fired:
		return c.kill
	case f.ended, f.starts == 0:
		return byNothing
	case f.death != byNothing:
		return f.death
	case c.kill == byTimeout && o.took >= c.timeout:
		return byTimeout
	default:
		return byNothing
	}
}
