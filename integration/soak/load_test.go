package soak

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
)

// tally is what came of calls, by kind.
type tally struct {
	mu    sync.Mutex
	rows  map[string]*row
	wrong []error // the first ones
}

// row counts the calls of a kind: those answered as asked, those told of what was truly wrong, and the others.
type row struct{ right, told, wrong int }

func (r row) calls() int { return r.right + r.told + r.wrong }

func newTally() *tally { return &tally{rows: map[string]*row{aMinute: {}}} }

// most is how many wrong answers are shown; all are counted.
const most = 20

func (t *tally) count(name string, err, wrong error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[name]
	if r == nil {
		r = &row{}
		t.rows[name] = r
	}
	switch {
	case err == nil:
		r.right++
	case wrong == nil:
		r.told++
	default:
		r.wrong++
		if len(t.wrong) < most {
			t.wrong = append(t.wrong, fmt.Errorf("%s: %w", name, wrong))
		}
	}
}

func (t *tally) sum() (all row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		all.right += r.right
		all.told += r.told
		all.wrong += r.wrong
	}
	return all
}

// callers is how many calls are made at a time, so that a machine that cannot keep up is not buried.
const callers = 32

// asFast means that callers make one call after another.
const asFast = 0

// load makes so many calls a second, or [asFast] as it can, until ctx ends. It returns when all of them have been answered.
func (s *stage) load(ctx context.Context, t *tally, rate float64) {
	numbers := make(chan int)
	var over sync.WaitGroup
	for range callers {
		over.Go(func() {
			for n := range numbers {
				s.call(t, n)
			}
		})
	}
	defer over.Wait()
	defer close(numbers)
	begun := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		for rate != asFast && float64(n) >= time.Since(begun).Seconds()*rate {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case numbers <- n:
		case <-ctx.Done():
			return
		}
	}
}

func (s *stage) call(t *tally, n int) {
	k, b, begun := kindOf(n), s.slots[n/3%len(s.slots)].sandbox(), time.Now()
	err := k.make(s, b, n%2)
	var wrong error
	if err != nil {
		wrong = s.troubles.judge(err, b.ID, begun)
	}
	t.count(k.name, err, wrong)
}

// aMinute is the kind of the streams that are open all the time.
const aMinute = "stream of a minute"

// counting is a command that says the sandbox's id and a number every second, for a minute.
const counting = `n=0; read id < /tmp/soak; while [ $n -lt 60 ]; do echo $id $n; n=$((n+1)); sleep 1; done`

// follow keeps so many streams open, on all sandboxes, until ctx ends. A stream that has ended is replaced.
func (s *stage) follow(ctx context.Context, t *tally, streams int) {
	var over sync.WaitGroup
	for i := range streams {
		over.Go(func() {
			for ctx.Err() == nil {
				s.stream(ctx, t, s.slots[i%len(s.slots)].sandbox(), i%2)
			}
		})
	}
	over.Wait()
}

// stream follows a command to its end.
func (s *stage) stream(ctx context.Context, t *tally, b sandbox, protocol int) {
	begun, said, ended := time.Now(), "", false
	limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := s.run(limit, b, protocol, counting, func(e *processpb.ProcessEvent) bool {
		said += string(e.GetData().GetStdout())
		ended = ended || e.GetEnd() != nil
		return true
	})
	if ctx.Err() != nil {
		return // it was the test that has left
	}
	lines := strings.SplitAfter(said, "\n")
	for n, line := range lines[:len(lines)-1] {
		if want := fmt.Sprintf("%s %d\n", b.ID, n); line != want {
			err = fmt.Errorf("a stream said %q, not %q", line, want)
			break
		}
	}
	if err == nil && (!ended || len(lines) != 61) {
		err = fmt.Errorf("a stream ended well after %d lines; the end of its command was heard of: %t", len(lines)-1, ended)
	}
	var wrong error
	if err != nil {
		wrong = s.troubles.judge(err, b.ID, begun)
	}
	t.count(aMinute, err, wrong)
}
