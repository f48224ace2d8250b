package routing

// A route in use is renewed before its time is over, so that nobody who uses it waits
// for the registry, not even when that begins to hang: by the end of the TTL it is
// known then that the registry does not answer, and the last known route is served at
// once. Sandboxes in use cost a lookup per three quarters of a TTL, all others none.

// renewalShare is the part of a TTL, at its end, in which a hit renews a route.
const renewalShare = 4

// renewing is what [entry.failed] has from the first hit in that time on, until the
// lookup fails. One that succeeds makes a new entry.
const renewing = -1

// hit is told that e was served.
func (c *Cache) hit(asker Asker, e *entry, now int64) {
	c.count.hit()
	if now > e.expires-int64(c.opt.TTL)/renewalShare && e.running() && e.failed.CompareAndSwap(0, renewing) {
		c.renew(asker, e.sandboxID)
	}
}

// renew looks a sandbox up for nobody in particular, if that disturbs nobody.
func (c *Cache) renew(asker Asker, sandboxID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.flights[sandboxID]) == 0 && !c.places[asker].crowded() {
		// If it is refused, the end of the TTL is early enough.
		_, _, _ = c.start(sandboxID, asker, nil)
	}
}
