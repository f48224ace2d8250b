package handlers

import (
	"sync"
	"time"
)

// ROCK's timeout call sets the end of a sandbox and knows no "at least". Two calls that
// both find the end too early would set it one after the other, and the one that asks
// for less may be the last. So those that are under way for one sandbox agree on the
// latest end, and whoever has set an earlier one sets it again.

// ends are the ends that calls under way want for sandboxes.
type ends struct {
	mu sync.Mutex
	of map[string]*end // by the sandbox's id
}

type end struct {
	calls  int
	latest time.Time
}

// enter notes a call that may set the end of a sandbox, before it looks at the end,
// until leave is called.
func (e *ends) enter(id string) (at *end, leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at = e.of[id]; at == nil {
		at = &end{}
		if e.of == nil {
			e.of = map[string]*end{}
		}
		e.of[id] = at
	}
	at.calls++
	return at, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if at.calls--; at.calls == 0 {
			delete(e.of, id)
		}
	}
}

// agree is the latest end that any call under way has wanted.
func (e *ends) agree(at *end, wanted time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wanted.After(at.latest) {
		at.latest = wanted
	}
	return at.latest
}

// endIn is when a sandbox ends that is given so many seconds now. ROCK counts in whole
// minutes and rounds up.
func endIn(seconds int64) time.Time {
	return time.Now().Add(time.Duration((seconds+59)/60) * time.Minute)
}

// prolong gives the sandbox at least so many seconds from now on. It never takes any
// away.
func (c *lifeCall) prolong(at *end, s sandbox, seconds int64) *lifeAnswer {
	if !endIn(seconds).After(s.endAt) {
		return nil
	}
	return c.setEnd(at, seconds)
}

// setEnd gives the sandbox so many seconds from now on, or what another call under way
// wants for it if that is more.
func (c *lifeCall) setEnd(at *end, seconds int64) *lifeAnswer {
	wanted := endIn(seconds)
	for set := (time.Time{}); ; {
		latest := c.g.opt.Deaths.ends.agree(at, wanted)
		if !latest.After(set) {
			return nil
		}
		if latest.After(wanted) {
			seconds = int64((time.Until(latest) + time.Second - 1) / time.Second)
		}
		if refused := c.setTimeout(max(seconds, 0)); refused != nil {
			return refused
		}
		set = latest
	}
}
