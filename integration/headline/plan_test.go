package headline

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

// killing is what a command is killed by.
type killing string

const (
	byNothing killing = ""
	byReset   killing = "RST"
	byFIN     killing = "FIN"
	byClean   killing = "clean end"
	bySilence killing = "silence"
	// byTimeout: the command takes longer than its own timeout.
	byTimeout killing = "timeout"
	// The others take the sandbox, and with it all its commands.
	byPause  killing = "pause"
	byDelete killing = "delete"
	byExpiry killing = "expiry"
)

// midEnvelope is no killing of its own: it is how the table names RST and FIN that hit the inside of an envelope.
const midEnvelope killing = "half an envelope"

// kinds are the faults of the double behind those that hit one command.
var kinds = map[killing]rock.Kind{byReset: rock.Reset, byFIN: rock.Close, byClean: rock.CleanEnd, bySilence: rock.Silence}

// command is one command of the plan.
type command struct {
	// user marks the command: the double knows it by this name and the log of the gateway by its base64 form.
	user   string
	script string
	// lasts is how long the command takes by itself, apart from the work of starting it.
	lasts time.Duration
	// stdout and exit are the only right result.
	stdout string
	exit   int
	// timeout is the argument of commands.run.
	timeout time.Duration

	kill killing
	// at is the byte of the answer's body at which the fault strikes (rock.Fault.At), or atTime or afterEnd.
	at int64
	// after is the time from the command's start to the fault, with atTime.
	after time.Duration
	// late commands start when their sandbox is dying already.
	late bool
}

// In place of a byte.
const (
	// atTime: the fault strikes whatever has been written by then.
	atTime = -10
	// afterEnd: it strikes between the end event and EndStream, when the result is the client's already.
	afterEnd = -11
)

// untimed is the timeout of commands that are not to run into it: the SDKs' own default.
const untimed = time.Minute

func (c command) String() string {
	s := fmt.Sprintf("%s, timeout %v, %q", c.user, c.timeout, c.script)
	switch {
	case c.kill == byNothing:
		return s + ", to end by itself"
	case kinds[c.kill] == "":
		return s + ", to die by " + string(c.kill)
	case c.at == afterEnd:
		return s + fmt.Sprintf(", %s after the end event", c.kill)
	case c.at == atTime:
		return s + fmt.Sprintf(", %s after %v", c.kill, c.after)
	default:
		return s + fmt.Sprintf(", %s at byte %d", c.kill, c.at)
	}
}

// life is what one sandbox goes through: its slots work side by side, each through its commands, the last of which is running
// when the sandbox dies.
type life struct {
	slots [][]command
	death killing
	// elsewhere: the double is told directly, not through the gateway.
	elsewhere bool
	// after is the time from the start of the last commands to the death, evict from the container's end to that of its
	// record.
	after, evict time.Duration
}

// end is the life with its last commands only.
func (l life) end() life {
	slots := make([][]command, len(l.slots))
	for i, commands := range l.slots {
		slots[i] = commands[max(0, len(commands)-1):]
	}
	l.slots = slots
	return l
}

const (
	slotsPerLife    = 4
	commandsPerSlot = 9
)

// planner draws lives. The same seed draws the same.
type planner struct {
	*rand.Rand
	prefix string
	drawn  int
}

// newPlanner makes the planner of one cell. Its commands' marks begin with prefix.
func newPlanner(seed, cell uint64, prefix string) *planner {
	return &planner{Rand: rand.New(rand.NewPCG(seed, cell)), prefix: prefix}
}

// lives draws lives of n commands together.
func (p *planner) lives(n int) (lives []life) {
	for n > 0 {
		l := life{elsewhere: p.IntN(2) == 0, after: p.upTo(300 * time.Millisecond)}
		l.death = []killing{byPause, byDelete, byDelete, byExpiry}[p.IntN(4)]
		if p.IntN(2) == 0 {
			l.evict = p.upTo(200 * time.Millisecond)
		}
		for slot := range slotsPerLife {
			var commands []command
			for range min(n, commandsPerSlot) - 1 {
				commands = append(commands, p.command())
			}
			if n > 0 {
				last := p.doomed(l.death)
				last.late = slot == 0 && p.IntN(3) == 0
				commands = append(commands, last)
			}
			n -= len(commands)
			l.slots = append(l.slots, commands)
		}
		lives = append(lives, l)
	}
	return lives
}

func (p *planner) upTo(most time.Duration) time.Duration { return time.Duration(p.Int64N(int64(most))) }

func (p *planner) next() command {
	p.drawn++
	return command{user: fmt.Sprint(p.prefix, p.drawn), timeout: untimed, exit: []int{0, 0, 0, 3}[p.IntN(4)]}
}

// command draws a command that does not die with its sandbox: four in five are left alone.
func (p *planner) command() command {
	c := p.next()
	switch n := p.IntN(100); {
	case n < 10: // at a byte of the answer, mostly in the middle of an envelope
		c.kill = []killing{byReset, byFIN}[p.IntN(2)]
		c.at = p.byte()
	case n < 14: // at a moment, mostly between envelopes
		c.kill = []killing{byReset, byFIN}[p.IntN(2)]
		c.at = atTime
	case n < 16:
		c.kill, c.at = byClean, max(0, p.byte()) // before the headers there is no stream to end
	case n < 18:
		c.kill, c.at = bySilence, p.byte()
	case n < 19:
		c.kill, c.at = bySilence, atTime
	case n < 21:
		c.kill = byTimeout
	case n < 23:
		c.kill, c.at = []killing{byReset, byFIN, byClean, bySilence}[p.IntN(4)], afterEnd
	}
	switch {
	case c.kill == byTimeout:
		c.pausing(time.Minute)
	case c.at == atTime:
		c.pausing(50*time.Millisecond + p.upTo(300*time.Millisecond))
		c.after = p.upTo(300 * time.Millisecond)
	default:
		c.quick()
	}
	switch c.kill {
	case byTimeout:
		c.timeout = (600*time.Millisecond + p.upTo(600*time.Millisecond)).Round(time.Millisecond)
	case bySilence: // long enough to notice that nothing follows an end event
		c.timeout = (1500*time.Millisecond + p.upTo(time.Second)).Round(time.Millisecond)
	}
	return c
}

// doomed draws a command that runs when its sandbox dies, or has just ended.
func (p *planner) doomed(death killing) command {
	c := p.next()
	c.kill = death
	lasts := 100*time.Millisecond + p.upTo(1500*time.Millisecond)
	if death == byExpiry {
		lasts += time.Second // ROCK's clock has whole seconds
	}
	c.pausing(lasts)
	return c
}

// byte draws a place in the answer of a quick command, which is about 200 to 280 bytes long.
func (p *planner) byte() int64 { return rock.BeforeHeaders + p.Int64N(260) }

func (c *command) quick() {
	c.script = fmt.Sprintf("for i in 1 2 3; do echo line $i %s; done; exit %d", c.user, c.exit)
	for i := range 3 {
		c.stdout += fmt.Sprintf("line %d %s\n", i+1, c.user)
	}
}

func (c *command) pausing(lasts time.Duration) {
	c.lasts = lasts
	c.script = fmt.Sprintf("echo first %s; sleep %.3f; echo last; exit %d", c.user, lasts.Seconds(), c.exit)
	c.stdout = fmt.Sprintf("first %s\nlast\n", c.user)
}
