package rock

import (
	"context"
	"encoding/json"
	"strconv"
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

// Expires is the present deadline, to the second: what the record says, which others may have written. A sandbox without such a
// record never expires, and has the zero time; so has one whose record cannot be read, as ROCK takes a failed question for that.
func (s *Sandbox) Expires() time.Time {
	var raw json.RawMessage
	s.cluster.record(func(ctx context.Context) (err error) {
		raw, err = s.cluster.opt.Records.Load(ctx, "timeout:"+s.ID)
		return err
	})
	var doc struct {
		Expire string `json:"expire_time"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(doc.Expire, 10, 64)
	if err != nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire = seconds // for when there is no record any more
	return time.Unix(seconds, 0)
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
		if state := s.State(); state != Running && state != Pending {
			continue
		}
		if end := s.Expires(); !end.IsZero() && now > end.Unix() {
			_ = s.Stop(Stopped) // ErrNotRunning: somebody else was faster
		}
	}
}
