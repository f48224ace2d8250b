package rock

import (
	"time"
)

// setMinutes starts a new timeout of that many whole minutes; 0 is due at once.
func (s *Sandbox) setMinutes(minutes int) {
	s.mu.Lock()
	s.minutes = minutes
	s.expire = s.cluster.opt.Now().Unix() + int64(minutes)*60
	s.mu.Unlock()
	s.publishTimeout()
}

// touch is the sliding renewal by command and file activity: same minutes, counted from now.
func (s *Sandbox) touch() {
	s.mu.Lock()
	s.expire = s.cluster.opt.Now().Unix() + int64(s.minutes)*60
	s.mu.Unlock()
	s.publishTimeout()
}

// Expires is the present deadline, to the second.
func (s *Sandbox) Expires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Unix(s.expire, 0)
}

// minutesOf rounds seconds up to whole minutes.
func minutesOf(seconds int64) int { return int((seconds + 59) / 60) }

// every runs a scan at an interval until the cluster closes.
func (c *Cluster) every(d time.Duration, scan func()) {
	defer c.tasks.Done()
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			scan()
		case <-c.ctx.Done():
			return
		}
	}
}

// Scan is one expiry scan: every live sandbox whose deadline lies before now is stopped (not deleted).
func (c *Cluster) Scan() {
	now := c.opt.Now().Unix()
	for _, s := range c.all() {
		s.mu.Lock()
		due := (s.state == Running || s.state == Pending) && now > s.expire
		s.mu.Unlock()
		if due {
			_ = s.Stop(Stopped) // ErrNotRunning: somebody else was faster
		}
	}
}
