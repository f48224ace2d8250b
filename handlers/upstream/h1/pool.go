package h1

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// shards is how many locks the connections are behind. All of one key are behind
// the same.
const shards = 64

// pool has all connections of a client, those in use and those that are not.
type pool struct {
	idleTimeout   time.Duration
	maxIdlePerKey int
	maxIdle       int64
	seed          maphash.Seed
	shards        [shards]shard
	idle          atomic.Int64 // how many there are
	closing       atomic.Bool  // nothing is kept, until somebody wants something again
	janitor       janitor
}

// shard has the connections of some keys.
type shard struct {
	mu    sync.Mutex
	homes map[string]*home
	idle  list // the oldest first
	used  list
	_     [64]byte // keeps the neighbour's lock out of this one's cache line
}

// home has the connections of one key.
type home struct {
	key   string
	shard *shard
	idle  []*conn // the oldest first
	open  int     // how many connections there are
}

func (p *pool) init(c Config) {
	p.idleTimeout, p.maxIdlePerKey, p.maxIdle = c.IdleTimeout, c.MaxIdlePerKey, int64(c.MaxIdle)
	p.seed = maphash.MakeSeed()
	for i := range p.shards {
		p.shards[i].homes = map[string]*home{}
	}
	p.janitor.pool = p
}

func (p *pool) shard(key string) *shard {
	return &p.shards[maphash.String(p.seed, key)%shards]
}

// add makes a fresh connection one of the pool's, in use.
func (p *pool) add(key string, raw Conn) *conn {
	s := p.shard(key)
	s.mu.Lock()
	h := s.homes[key]
	if h == nil {
		h = &home{key: key, shard: s}
		s.homes[key] = h
	}
	h.open++
	c := newConn(raw, h)
	s.used.push(c)
	s.mu.Unlock()
	p.janitor.opened()
	return c
}

// get takes the connection for key that was used last, or nil.
func (p *pool) get(key string) *conn {
	if p.closing.Load() {
		p.closing.Store(false)
	}
	s := p.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.homes[key]
	if h == nil || len(h.idle) == 0 {
		return nil
	}
	c := h.idle[len(h.idle)-1]
	p.take(c)
	return c
}

// take makes an idle connection one in use. The lock of its shard is held.
func (p *pool) take(c *conn) {
	h := c.home
	i := len(h.idle) - 1
	if h.idle[i] != c {
		i = slices.Index(h.idle, c)
	}
	h.idle = slices.Delete(h.idle, i, i+1)
	h.shard.idle.remove(c)
	h.shard.used.push(c)
	c.idle = false
	c.takings++
	p.idle.Add(-1)
}

// put keeps a connection whose answer is over for the next request.
func (p *pool) put(c *conn) {
	c.reused = true
	c.narrow()
	now := time.Now()
	s := c.home.shard
	s.mu.Lock()
	if len(c.home.idle) >= p.maxIdlePerKey || p.closing.Load() {
		s.mu.Unlock()
		p.discard(c)
		return
	}
	c.idle, c.idleAt = true, now
	c.home.idle = append(c.home.idle, c)
	s.used.remove(c)
	s.idle.push(c)
	n := p.idle.Add(1)
	s.mu.Unlock()
	if n > p.maxIdle {
		p.evict()
	}
}

// discard closes a connection that is in use.
func (p *pool) discard(c *conn) {
	c.Close()
	s := c.home.shard
	s.mu.Lock()
	s.used.remove(c)
	if c.home.open--; c.home.open == 0 {
		delete(s.homes, c.home.key)
	}
	s.mu.Unlock()
	p.janitor.closed()
}

// evict closes the connection that has been idle for longest.
func (p *pool) evict() {
	var oldest *shard
	var since time.Time
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		if c := s.idle.first; c != nil && (oldest == nil || c.idleAt.Before(since)) {
			oldest, since = s, c.idleAt
		}
		s.mu.Unlock()
	}
	if oldest == nil {
		return
	}
	oldest.mu.Lock()
	c := oldest.idle.first
	if c != nil {
		p.take(c)
	}
	oldest.mu.Unlock()
	if c != nil {
		p.discard(c)
	}
}

// closeIdle closes what is idle.
func (p *pool) closeIdle() {
	p.closing.Store(true)
	for i := range p.shards {
		p.discardIdle(&p.shards[i], func(*conn) bool { return true })
	}
}

// discardIdle closes the connections that are idle, the oldest first, up to one for
// which leave is false.
func (p *pool) discardIdle(s *shard, leave func(*conn) bool) {
	for {
		s.mu.Lock()
		c := s.idle.first
		if c == nil || !leave(c) {
			s.mu.Unlock()
			return
		}
		p.take(c)
		s.mu.Unlock()
		p.discard(c)
	}
}

// list is a list of connections. Each is in one at most.
type list struct{ first, last *conn }

func (l *list) push(c *conn) {
	c.prev, c.next = l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

func (l *list) remove(c *conn) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}
