package routing

import (
	"errors"
	"strconv"
	"testing/synctest"
	"time"
)

// hear takes the answers that callers have got in a step, before which the floors of memory were these.
func (w *world) hear(certain []int) {
	still := w.callers[:0:0]
	for _, c := range w.callers {
		select {
		case a := <-c.done:
			floor := certain[0]
			if i, _ := strconv.Atoi(c.box.id); i > 0 {
				floor = certain[i]
			}
			w.judge(c, a, floor)
		default:
			if c.left {
				w.breaks("who has left sandbox %s still waits", c.box.id)
			}
			still = append(still, c)
		}
	}
	w.callers = still
}

// judge holds an answer against the promises.
func (w *world) judge(c *caller, a told, certain int) {
	b := c.box
	switch {
	case errors.Is(a.err, errLeft):
		if !c.left {
			w.breaks("sandbox %s: who has not left is told so", b.id)
		}
	case a.err == nil:
		w.judgeRoute(c, a, certain)
	case errors.Is(a.err, ErrGone):
		w.judgeGone(c, a)
	case errors.Is(a.err, ErrUnavailable), errors.Is(a.err, ErrMalformed):
		// One that fails is told of, to all who have waited for it and for a while to others.
		if !w.failed(c.at.Add(-w.opt.LookupTimeout * 3)) {
			w.breaks("sandbox %s: %v, although every question was answered", b.id, a.err)
		}
	default:
		w.breaks("sandbox %s: an answer of no kind: %v", b.id, a.err)
	}
}

func (w *world) judgeRoute(c *caller, a told, certain int) {
	b, now := c.box, a.at
	version, err := strconv.Atoi(a.route.Lifecycle)
	if err != nil || version >= len(b.facts) || a.route.SandboxID != b.id || b.facts[version].state != a.route.State {
		w.breaks("sandbox %s: a route that never was: %+v", b.id, a.route)
		return
	}
	b.seen = max(b.seen, version)
	f := b.facts[version]
	oldest := time.Duration(0)
	switch a.source {
	case SourceStale:
		oldest = w.opt.TTL + w.opt.Stale
		if a.route.State != StateRunning {
			w.breaks("sandbox %s: a last known route that does not run", b.id)
		}
		if version < max(certain, c.certain) {
			w.breaks("sandbox %s: version %d is the last known one, %d was invalidated", b.id, version, max(certain, c.certain)-1)
		}
	case SourceCache:
		oldest = w.opt.TTL
		if a.route.State != StateRunning {
			oldest = w.opt.Negative
		}
		fallthrough
	case SourceRegistry:
		if version < c.told {
			w.breaks("sandbox %s: version %d, although all before %d were invalidated", b.id, version, c.told)
		}
		if version < c.seen {
			w.breaks("sandbox %s: version %d, although somebody was told of %d before", b.id, version, c.seen)
		}
		if c.fresh && version < c.written {
			w.breaks("sandbox %s: version %d is not fresh, %d was written before the call", b.id, version, c.written)
		}
	}
	if a.source != SourceRegistry && !f.superseded.IsZero() && now.Sub(f.superseded) > oldest {
		w.breaks("sandbox %s: version %d from memory, %v after its end", b.id, version, now.Sub(f.superseded))
	}
	if version == b.shielded && !c.at.Before(f.killed) && now.Sub(f.killed) < w.opt.Negative && b.evictions == w.cache.Stats().Evictions {
		w.breaks("sandbox %s: version %d was killed through us, and is back", b.id, version)
	}
}

// judgeGone looks for a time at which it was true, and not too long ago.
func (w *world) judgeGone(c *caller, a told) {
	now, floor := a.at, c.told
	if c.fresh {
		floor = c.written
	}
	for version := floor; version < len(c.box.facts); version++ {
		f := c.box.facts[version]
		late := a.source == SourceCache && !f.superseded.IsZero() && now.Sub(f.superseded) > w.opt.Negative
		if (f.state == nowhere || !f.killed.IsZero()) && !late {
			return
		}
	}
	w.breaks("sandbox %s: gone, which it was not since version %d", c.box.id, floor)
}

// end answers what was asked and pushes what has changed. Then nobody waits any more, and what the cache knows is what the registry knows.
func (w *world) end() {
	settle := func() {
		for n := 0; w.pick(every, false) != nil; n++ {
			if w.pick(unread, false) != nil {
				w.take(stepRead, 0)
				continue
			}
			w.take(stepAnswer, 0)
			if n > 1000 {
				w.breaks("there is no end of questions")
				return
			}
		}
	}
	settle()
	time.Sleep(w.opt.LookupTimeout + w.opt.LookupTimeout/10)
	synctest.Wait()
	settle()
	for i, b := range w.boxes {
		if !b.pushed {
			w.take(stepPush, i)
		}
	}
	time.Sleep(w.opt.LookupTimeout + retryPause + probePause) // a registry that has failed is asked again
	w.take(stepMoment, 0)
	if len(w.callers) > 0 {
		w.breaks("%d callers wait for nothing", len(w.callers))
	}
	for _, b := range w.boxes {
		for range 2 {
			c := &caller{box: b, told: b.version(), certain: b.version(), written: b.version(), at: time.Now()}
			answered := asking(w.cache, b.id)
			synctest.Wait()
			settle()
			select {
			case a := <-answered:
				w.judge(c, told{a, time.Now()}, b.version())
				if a.source == SourceStale || a.err != nil && !errors.Is(a.err, ErrGone) {
					w.breaks("sandbox %s: at rest %+v", b.id, a)
				}
			default:
				w.breaks("sandbox %s: at rest nobody answers", b.id)
				w.drain()
				return
			}
		}
	}
	if n := w.cache.Stats().InFlight; n != 0 {
		w.breaks("%d lookups are in flight at rest", n)
	}
	w.drain()
}

// drain lets everybody go, so that the bubble can end whatever was broken.
func (w *world) drain() {
	w.cache.Close()
	for _, c := range w.callers {
		c.leave(errLeft)
	}
	for q := w.pick(every, false); q != nil; q = w.pick(every, false) {
		w.remove(q).answer <- ErrUnavailable
	}
}
