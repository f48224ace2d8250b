package headline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

// patience is how long after the last moment at which an outcome could have come its absence is a hang.
type patience time.Duration

const (
	strict patience = patience(15 * time.Second)
	// brief is for the run without the gateway, where many hang.
	brief patience = patience(5 * time.Second)
)

// cell is one SDK over one transport through one stage.
type cell struct {
	*stage
	driver   *driver
	patience patience
	threads  atomic.Int64
	sum      *sum
}

// run takes the lives through their programs, some at a time.
func (c *cell) run(t *testing.T, lives []life, atOnce int) {
	next := make(chan life)
	var lanes sync.WaitGroup
	for range atOnce {
		lanes.Go(func() {
			threads := make([]int, slotsPerLife)
			for i := range threads {
				threads[i] = int(c.threads.Add(1))
			}
			for l := range next {
				for lived := 1; ; lived++ {
					unknowable, err := c.live(t.Context(), l, threads)
					if err != nil {
						t.Errorf("%s: %v", c.sum.name, err)
					}
					if unknowable == 0 || lived == mostLived {
						c.sum.giveUp(unknowable)
						break
					}
					t.Logf("%s: the causes of %d commands could not be known, their end is played again", c.sum.name, unknowable)
					l = l.end()
				}
			}
		})
	}
	for _, l := range lives {
		next <- l
	}
	close(next)
	lanes.Wait()
}

// mostLived is how often the end of one life is played, on a machine on which the double is too slow to know what is right.
const mostLived = 5

// live is one sandbox from its creation to its end. threads are those of the program, one for each slot; one that hangs is
// replaced. It tells of how many of its outcomes nobody can know whether they are right.
func (c *cell) live(ctx context.Context, l life, threads []int) (unknowable int, err error) {
	made := c.driver.do(order{Thread: threads[0], Do: "create", Timeout: 3600}, time.Minute)
	if made.Sandbox == "" {
		return 0, fmt.Errorf("creating a sandbox: %v", made.outcome)
	}
	var slots sync.WaitGroup
	for i, commands := range l.slots {
		slots.Go(func() {
			for _, cmd := range commands[:max(0, len(commands)-1)] {
				f, o := c.execute(ctx, made.Sandbox, cmd, &threads[i])
				c.sum.count(cmd, f, o)
			}
		})
	}
	slots.Wait()
	unknowable, err = c.lastMoments(ctx, made.Sandbox, l, threads)
	c.driver.do(order{Thread: threads[0], Do: "forget", Sandbox: made.Sandbox}, time.Minute)
	return unknowable, err
}

// lastMoments starts the last commands of a life and kills the sandbox under them.
func (c *cell) lastMoments(ctx context.Context, id string, l life, threads []int) (unknowable int, err error) {
	type result struct {
		cmd    command
		f      facts
		o      outcome
		seenAt time.Time
	}
	var slots sync.WaitGroup
	results := make(chan result, len(l.slots))
	dying := make(chan struct{})
	for i, commands := range l.slots {
		if len(commands) == 0 {
			continue
		}
		cmd := commands[len(commands)-1]
		begun := c.book.of(cmd.user).begun
		slots.Go(func() {
			if cmd.late {
				<-dying
			}
			f, o := c.execute(ctx, id, cmd, &threads[i])
			results <- result{cmd, f, o, time.Now()}
		})
		if cmd.late {
			continue
		}
		select {
		case <-begun:
		case <-time.After(time.Minute):
			err = fmt.Errorf("the double never saw %v", cmd)
		}
	}
	<-time.After(l.after)
	diedAt := time.Now()
	evicted := c.evictions.expect(id, c.rock.Sandbox(id).Done())
	told := make(chan time.Duration, 1)
	go func() {
		outlived, begun := evicted(), time.Now()
		c.ask(ctx, id)
		told <- outlived + time.Since(begun)
	}()
	close(dying)
	if died := c.die(ctx, id, l); died != nil {
		err = fmt.Errorf("%s of a sandbox: %w", l.death, died)
	}
	slots.Wait()
	close(results)
	outlived := time.Duration(0)
	if err == nil {
		outlived = <-told
	}
	for r := range results {
		if r.seenAt.After(diedAt) {
			r.f.death, r.f.diedAt, r.f.evicted = l.death, diedAt, outlived
		}
		if c.sum.count(r.cmd, r.f, r.o) {
			unknowable++
		}
	}
	return unknowable, err
}

// execute runs one command with the fault that is planned for it.
func (c *cell) execute(ctx context.Context, id string, cmd command, thread *int) (facts, outcome) {
	entry := c.book.of(cmd.user)
	defer c.book.forget(cmd.user)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fired := c.arm(ctx, cmd, entry)
	wait := cmd.lasts
	if cmd.timeout < untimed {
		wait = cmd.timeout
	}
	f := facts{dueAt: time.Now().Add(cmd.timeout)}
	a := c.driver.do(order{Thread: *thread, Do: "run", Sandbox: id, Command: cmd.script, User: cmd.user, Timeout: cmd.timeout.Seconds()},
		wait+time.Second+time.Duration(c.patience))
	if a.hang {
		*thread = int(c.threads.Add(1))
	}
	cancel()
	f.fired = fired()
	entry.mu.Lock()
	f.starts = entry.starts
	entry.mu.Unlock()
	if f.starts > 0 && !a.hang {
		select {
		case <-entry.over:
		case <-time.After(5 * time.Second): // what was written by then is all there is
		}
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	s := read(entry.sent)
	f.starts, f.ended, f.endAt, f.within, f.sent = entry.starts, s.ended, entry.endAt, s.within, slices.Clone(entry.sent)
	return f, a.outcome
}

// arm prepares the fault of a command. fired, to be asked when ctx has ended and the command too, tells whether it has struck.
func (c *cell) arm(ctx context.Context, cmd command, e *entry) (fired func() bool) {
	kind := kinds[cmd.kill]
	match := rock.Match{Role: rock.Proxy, Path: startPath, User: cmd.user}
	switch {
	case kind == "":
		return func() bool { return false }
	case cmd.at == afterEnd:
		var struck atomic.Bool
		e.atEnd = func() { struck.Store(c.rock.Faults().Fire(match, kind) > 0) }
		return struck.Load
	case cmd.at == atTime:
		struck := make(chan bool, 1)
		go func() { struck <- c.strike(ctx, e, match, kind, cmd.after) }()
		return func() bool { return <-struck }
	default:
		armed := c.rock.Faults().Add(rock.Fault{Match: match, Kind: kind, At: cmd.at, Times: 1})
		return func() bool { armed.Disarm(); return armed.Fired() > 0 }
	}
}

// strike ends a command's answer some time after it began.
func (c *cell) strike(ctx context.Context, e *entry, match rock.Match, kind rock.Kind, after time.Duration) bool {
	select {
	case <-e.begun:
	case <-ctx.Done():
		return false
	}
	wait := time.NewTimer(after)
	defer wait.Stop()
	select {
	case <-wait.C:
		return c.rock.Faults().Fire(match, kind) > 0
	case <-ctx.Done():
		return false
	}
}
