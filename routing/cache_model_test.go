package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The model of the route cache: a world of sandboxes, a registry that answers when it is told to, callers, and the promises of [Cache]. A
// history is a list of steps; it is played against the real cache, on a clock and a scheduler of the test's own, and after each step everything
// that was told to anybody is held against what was true. [TestCacheKeepsItsPromisesInEveryShortHistory] plays all histories up to a length, and
// [TestCacheKeepsItsPromisesInLongHistories] such as are drawn.
//
// Each of these faults was planted in the cache and found, but for two by both:
//
//   - the fence: fence does nothing; finish looks at no epoch; Forget fences nothing; an outdated question is shared;
//   - invalidation: Invalidate drops nothing; the epoch is not counted; a record of the life that was deleted through us is believed;
//   - single flight: Fresh shares a question that was put before; a lookup does not follow the earlier one; only one waiter is told;
//   - outages: an error is remembered as gone; a caller that leaves takes the lookup with it; a route that does not run is a last known one;
//   - time: a hit makes the age anew; what is not running is remembered as long as a route.
//
// That an age counts from the answer and not from the question, and that a newer answer does not outdate earlier questions, is found by the first only in a short
// run. That the memory is not bounded is found by the second only, because it takes several sandboxes.

// step is what happens next in a history.
type step byte

const (
	stepLookup     step = 'L' // somebody calls Lookup
	stepFresh      step = 'F' // somebody calls Fresh
	stepLeave      step = 'c' // who has waited longest leaves
	stepStart      step = 's' // the sandbox is there, in another life
	stepEnd        step = 'e' // the sandbox is gone, and nobody is told
	stepPause      step = 'p' // the sandbox is paused, and nobody is told
	stepPush       step = 'I' // the registry pushes that the record has changed
	stepLost       step = 'E' // the ability to hear of changes is lost
	stepKill       step = 'k' // it is killed through us, and its record is gone
	stepKillEarly  step = 'K' // it is killed through us, and its record lingers
	stepRead       step = 'r' // the oldest question is read: the answer is what is true now
	stepAnswer     step = 'a' // the oldest answer that was read arrives
	stepAnswerLast step = 'A' // the youngest answer that was read arrives
	stepFail       step = 'x' // the oldest question fails
	stepMalformed  step = 'm' // the oldest question is answered with a record that cannot be read
	stepMoment     step = 't' // longer than callers with a last known route wait
	stepWhile      step = 'n' // longer than gone is remembered
	stepAlmost     step = 'w' // hardly shorter than a route is current
	stepLong       step = 'T' // longer than a route is current
)

// nowhere is the state of a sandbox that is gone.
const nowhere State = 255

// fact is what is true of a sandbox from some moment on. Its place in the list of them is its version, and the route's lifecycle.
type fact struct {
	state      State // nowhere for gone
	since      time.Time
	superseded time.Time // zero for what is still true
	killed     time.Time // through us
}

// box is a sandbox in the world.
type box struct {
	id    string
	facts []*fact
	// told is the least version that may be answered to who calls now, and certain the least that may be served from memory whatever the outage.
	told, certain int
	seen          int // the newest version that anybody was told of
	// shielded is the version that was killed through us, until its shield ends: -1 for none. It is remembered, so it ends with an eviction, of which
	// there had been so many.
	shielded  int
	evictions uint64
	pushed    bool // nothing has changed since the last push
}

func (b *box) version() int { return len(b.facts) - 1 }
func (b *box) now() *fact   { return b.facts[b.version()] }

// question is a lookup in the registry.
type question struct {
	box    *box
	at     time.Time
	read   int // version, -1 before
	answer chan error
	over   bool // for the cache: it was answered or ran out of time
}

// caller is somebody who waits for an answer.
type caller struct {
	box   *box
	fresh bool
	// What was of the box when the call was made.
	told, certain, seen int
	written             int
	at                  time.Time
	leave               context.CancelCauseFunc
	left                bool
	done                chan told
}

// told is an answer, and when it was given: a step may take longer.
type told struct {
	answer
	at time.Time
}

var errLeft = errors.New("the caller has left")

// world is all of it.
type world struct {
	cache *Cache
	opt   CacheOptions
	deaf  bool // the registry does not keep to its context
	boxes []*box

	mu        sync.Mutex // lookups may begin and end at the same time; the history does nothing meanwhile
	questions []*question
	callers   []*caller
	failedAt  time.Time // of the last lookup that did not get an answer
	broken    error     // the first promise that was broken
}

// newWorld must be called in a bubble.
func newWorld(sandboxes int, opt CacheOptions, deaf bool) *world {
	w := &world{deaf: deaf}
	for i := range sandboxes {
		w.boxes = append(w.boxes, &box{id: strconv.Itoa(i), shielded: -1, facts: []*fact{{state: StateRunning, since: time.Now()}}})
	}
	w.cache = NewCache(registryFunc(w.lookup), opt)
	w.opt = w.cache.opt
	return w
}

// fails notes that a lookup does not get an answer.
func (w *world) fails() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failedAt = time.Now()
}

// failed reports one that did not since then.
func (w *world) failed(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.failedAt.IsZero() && !w.failedAt.Before(since)
}

func (w *world) breaks(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(format, args...)
	}
}

// lookup is the registry.
func (w *world) lookup(ctx context.Context, id string) (*Route, error) {
	i, _ := strconv.Atoi(id)
	q := &question{box: w.boxes[i], at: time.Now(), read: -1, answer: make(chan error, 1)}
	w.ask(q)
	if w.deaf {
		late := time.AfterFunc(w.opt.LookupTimeout+w.opt.LookupTimeout/10, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			q.over, w.failedAt = true, time.Now()
		})
		defer late.Stop()
		return w.reply(q, <-q.answer)
	}
	select {
	case err := <-q.answer:
		return w.reply(q, err)
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		if time.Since(q.at) < w.opt.LookupTimeout {
			w.breaks("the lookup of sandbox %s was given up after %v", id, time.Since(q.at))
		}
		w.failedAt, q.over = time.Now(), true
		w.questions = slices.DeleteFunc(w.questions, func(other *question) bool { return other == q })
		return nil, ErrUnavailable
	}
}

func (w *world) ask(q *question) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.questions {
		if other.box == q.box && !other.over && q.at.Sub(other.at) < w.opt.Patience {
			w.breaks("sandbox %s is asked for twice at the same time", q.box.id)
		}
	}
	w.questions = append(w.questions, q)
}

func (w *world) reply(q *question, err error) (*Route, error) {
	f := q.box.facts[max(q.read, 0)]
	switch {
	case err != nil:
		return nil, err
	case f.state == nowhere:
		return nil, ErrGone
	default:
		return inState(running(q.box.id, strconv.Itoa(q.read)), f.state), nil
	}
}

// remove takes a question off the list of those that have no answer yet.
func (w *world) remove(q *question) *question {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.over = true
	w.questions = slices.DeleteFunc(w.questions, func(other *question) bool { return other == q })
	return q
}

// pick is the oldest question of which that is true, or the youngest; nil if there is none.
func (w *world) pick(which func(*question) bool, youngest bool) (found *question) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.questions {
		if which(q) && (found == nil || youngest) {
			found = q
		}
	}
	return found
}

func every(*question) bool    { return true }
func read(q *question) bool   { return q.read >= 0 }
func unread(q *question) bool { return q.read < 0 }

// can reports whether a step makes a difference now: all others are left out of histories.
func (w *world) can(s step, on int) bool {
	b := w.boxes[on]
	switch s {
	case stepLeave:
		return w.waiting() != nil
	case stepStart:
		return b.now().state != StateRunning || b.version() < 3
	case stepEnd, stepPause:
		return b.now().state == StateRunning
	case stepKill, stepKillEarly:
		return b.now().state == StateRunning
	case stepRead:
		return w.pick(unread, false) != nil
	case stepAnswer:
		return w.pick(read, false) != nil
	case stepAnswerLast:
		return w.pick(read, false) != w.pick(read, true)
	case stepFail, stepMalformed:
		return w.pick(every, false) != nil
	default:
		return true
	}
}

func (w *world) waiting() *caller {
	for _, c := range w.callers {
		if !c.left {
			return c
		}
	}
	return nil
}

// take makes a step and holds what it has brought about against the promises. It returns in quiescence.
func (w *world) take(s step, on int) {
	b := w.boxes[on]
	certain := make([]int, len(w.boxes))
	for i, b := range w.boxes {
		certain[i] = b.certain
	}
	switch s {
	case stepLookup, stepFresh:
		w.call(b, s == stepFresh)
	case stepLeave:
		c := w.waiting()
		c.left = true
		c.leave(errLeft)
	case stepStart:
		b.change(StateRunning)
	case stepEnd:
		b.change(nowhere)
	case stepPause:
		b.change(StateStopped)
	case stepPush:
		w.cache.Invalidate(b.id)
		b.told, b.certain, b.shielded, b.pushed = b.version(), b.version(), -1, true
	case stepLost:
		w.cache.Invalidate("")
		for _, b := range w.boxes {
			b.told = b.version()
		}
	case stepKill, stepKillEarly:
		life := b.version()
		b.now().killed = time.Now()
		if s == stepKill {
			b.change(nowhere)
		}
		b.told, b.certain, b.shielded = b.version(), b.version(), life
		if e := w.cache.entries.load(b.id); e != nil && e.route != nil && e.route.Lifecycle != strconv.Itoa(life) {
			b.shielded = -1 // another life is remembered, so that the registry is asked again: see Forget
		}
		w.cache.Forget(b.id, strconv.Itoa(life))
		b.evictions = w.cache.Stats().Evictions
	case stepRead:
		q := w.pick(unread, false)
		q.read = q.box.version()
	case stepAnswer, stepAnswerLast:
		q := w.pick(read, s == stepAnswerLast)
		w.remove(q).answer <- nil
	case stepFail, stepMalformed:
		q := w.remove(w.pick(every, false))
		w.fails()
		q.answer <- map[step]error{stepFail: ErrUnavailable, stepMalformed: ErrMalformed}[s]
	case stepMoment:
		time.Sleep(w.opt.Patience + 50*time.Millisecond)
	case stepWhile:
		time.Sleep(w.opt.Negative + w.opt.LookupTimeout/5)
	case stepAlmost:
		time.Sleep(w.opt.TTL - w.opt.TTL/40)
	case stepLong:
		time.Sleep(w.opt.TTL + w.opt.Negative)
	}
	synctest.Wait()
	w.hear(certain)
	if n := w.cache.Stats().Entries; n > w.opt.MaxEntries {
		w.breaks("%d answers are remembered, %d may be", n, w.opt.MaxEntries)
	}
}

func (b *box) change(to State) {
	b.now().superseded = time.Now()
	b.facts = append(b.facts, &fact{state: to, since: time.Now()})
	b.pushed = false
}

func (w *world) call(b *box, fresh bool) {
	ctx, leave := context.WithCancelCause(context.Background())
	c := &caller{box: b, fresh: fresh, told: b.told, certain: b.certain, seen: b.seen, written: b.version(), at: time.Now(), leave: leave, done: make(chan told, 1)}
	w.callers = append(w.callers, c)
	go func() {
		defer leave(nil)
		if fresh {
			route, err := w.cache.Fresh(ctx, b.id)
			c.done <- told{answer{route, SourceRegistry, err}, time.Now()}
			return
		}
		route, source, err := w.cache.Lookup(ctx, b.id)
		c.done <- told{answer{route, source, err}, time.Now()}
	}()
}

// play plays a history, which lasts until next has no step any more, and its end.
func play(t *testing.T, sandboxes int, opt CacheOptions, deaf bool, next func(w *world) (s step, on int, ok bool)) (broken error) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(sandboxes, opt, deaf)
		for w.broken == nil {
			s, on, ok := next(w)
			if !ok {
				break
			}
			w.take(s, on)
		}
		w.end()
		broken = w.broken
	})
	return broken
}
