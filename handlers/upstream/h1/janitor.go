package h1

import (
	"sync"
	"time"
)

const (
	// round is how often the janitor looks at the connections, at most.
	round = time.Second
	// probing is how many rounds pass between two looks for what the other side
	// has closed.
	probing = 3
)

// janitor closes connections that are idle for too long or that the other side has
// closed, and watches those in use. It comes by while there are connections, and has
// no goroutine between.
type janitor struct {
	pool *pool

	mu    sync.Mutex
	open  int         // how many connections there are
	timer *time.Timer // nil before the first
	comes bool        // the timer runs, or the janitor is at work

	// Used by the janitor at work only.
	rounds int
	found  []found
}

// found is a connection that the janitor has come by.
type found struct {
	*conn
	takings uint
	idle    bool
}

// opened is told of each connection that is made.
func (j *janitor) opened() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open++; j.comes {
		return
	}
	j.comes = true
	if j.timer == nil {
		j.timer = time.AfterFunc(j.every(), j.work)
	} else {
		j.timer.Reset(j.every())
	}
}

// closed is told of each connection that is no more. The last one lets the janitor go.
func (j *janitor) closed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open--; j.open == 0 && j.timer.Stop() {
		j.comes = false
	}
}

func (j *janitor) every() time.Duration { return min(round, j.pool.idleTimeout/8+1) }

func (j *janitor) work() {
	j.rounds++
	expired := time.Now().Add(-j.pool.idleTimeout)
	for i := range j.pool.shards {
		s := &j.pool.shards[i]
		j.pool.discardIdle(s, func(c *conn) bool { return c.idleAt.Before(expired) })
		j.visit(s)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == 0 {
		j.comes = false
		return
	}
	j.timer.Reset(j.every())
}

// visit looks at the connections of a shard. That takes system calls, so it is not
// done behind the lock: meanwhile they may go in and out of use.
func (j *janitor) visit(s *shard) {
	s.mu.Lock()
	for c := s.used.first; c != nil; c = c.next {
		j.found = append(j.found, found{c, c.takings, false})
	}
	for c := s.idle.first; c != nil && j.rounds%probing == 0; c = c.next {
		j.found = append(j.found, found{c, c.takings, true})
	}
	s.mu.Unlock()
	for _, f := range j.found {
		if !f.idle {
			f.WatchUsed()
		} else if !f.WatchIdle() {
			j.pool.discardIfUntouched(f)
		}
	}
	clear(j.found)
	j.found = j.found[:0]
}

// discardIfUntouched closes an idle connection, unless it was used since it was
// found: what there was to read may have been an answer then.
func (p *pool) discardIfUntouched(f found) {
	s := f.home.shard
	s.mu.Lock()
	untouched := f.conn.idle && f.conn.takings == f.takings
	if untouched {
		p.take(f.conn)
	}
	s.mu.Unlock()
	if untouched {
		p.discard(f.conn)
	}
}
