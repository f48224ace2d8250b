package routing

// A route in use is renewed before its time is over, so that nobody who uses it waits
// for the registry, not even when that begins to hang: by the end of the TTL it is
// known then that the registry does not answer, and the last known route is served at
// once. That takes more than a few routes in use (see health), and a TTL of which the
// last quarter is longer than a lookup. Sandboxes in use cost a lookup per three
// quarters of a TTL, all others none.

// renewalShare is the part of a TTL, at its end, in which a hit renews a route.
const renewalShare = 4

// renewing is what [entry.failed] has while a lookup that a hit gave rise to is not
// over. One that succeeds makes a new entry.
const renewing = -1

// hit is told that e was served.
func (c *Cache) hit(asker Asker, e *entry, now int64) {
	if !e.running() {
		c.count.negative.Add(1)
		return
	}
	c.count.hit()
	if now <= e.expires-int64(c.opt.TTL)/renewalShare {
		return
	}
	failed := e.failed.Load()
	if failed == renewing || failed > 0 && now-failed < int64(retryPause) || !e.failed.CompareAndSwap(failed, renewing) {
		return
	}
	if !c.renew(asker, e.sandboxID) {
		e.failed.CompareAndSwap(renewing, max(now, 1))
	}
}

// renew looks a sandbox up for nobody in particular, if that disturbs nobody. It
// reports whether somebody does.
func (c *Cache) renew(asker Asker, sandboxID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.flights[sandboxID]) > 0 {
		return true
	}
	if c.places[asker].crowded() {
		return false
	}
	_, _, err := c.start(sandboxID, asker, nil)
	return err == nil
}
