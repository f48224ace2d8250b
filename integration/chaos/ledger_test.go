package chaos

import (
	"sync"
	"time"
)

// ledger is the truth: when each sandbox was certainly alive and certainly registered, and when each gateway could be reached.
type ledger struct {
	mu        sync.Mutex
	sandboxes map[string][]change
	doubts    map[string]int // how many reasons there are to doubt
	gateways  map[int][]outage
}

// change is a time at which the truth about a sandbox becomes another one.
type change struct {
	at   time.Time
	sure bool
}

// outage is a time in which a gateway ends, is gone, or begins.
type outage struct {
	from, to time.Time // to is zero while it lasts
	killed   bool      // nobody could end anything well
}

func newLedger() *ledger {
	return &ledger{sandboxes: map[string][]change{}, doubts: map[string]int{}, gateways: map[int][]outage{}}
}

// grace is how long after a sandbox is registered (again) a gateway may still say what was true before: it remembers a sandbox that is
// not there for `negative`, and a lookup that had begun takes a moment to come back.
const grace = 700 * time.Millisecond

// begin notes that a sandbox is alive and registered, as far as anybody can know, from a moment from now on.
func (l *ledger) begin(sandbox string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(sandbox, change{time.Now().Add(grace), true})
}

// doubt notes that from now on it may be gone, or be taken for gone, until certain is called as often.
func (l *ledger) doubt(sandbox string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubts[sandbox]++
	l.note(sandbox, change{time.Now(), false})
}

// certain ends one doubt.
func (l *ledger) certain(sandbox string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubts[sandbox]--; l.doubts[sandbox] == 0 {
		l.note(sandbox, change{time.Now().Add(grace), true})
	}
}

func (l *ledger) note(sandbox string, c change) {
	l.sandboxes[sandbox] = append(l.sandboxes[sandbox], c)
}

// live reports that a sandbox was alive and registered for all of a time.
func (l *ledger) live(sandbox string, from, to time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sure := false
	for _, c := range l.sandboxes[sandbox] {
		if !c.at.After(from) {
			sure = c.sure
		} else if !c.sure && !c.at.After(to) {
			return false
		}
	}
	return sure // a doubt comes after the certainty that it voids, also after one that was noted ahead of its time
}

// down notes that a gateway goes away from now on.
func (l *ledger) down(gateway int, killed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gateways[gateway] = append(l.gateways[gateway], outage{from: time.Now(), killed: killed})
}

// up notes that it is back.
func (l *ledger) up(gateway int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.gateways[gateway]
	all[len(all)-1].to = time.Now()
}

// settled reports a sandbox that is alive and registered, and of which every gateway must know it a moment from now.
func (l *ledger) settled(sandbox string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.sandboxes[sandbox]
	return len(all) > 0 && all[len(all)-1].sure
}

// absence is why a gateway may have left a request without an answer.
type absence int

const (
	there   absence = iota // it may not
	closing                // it was told to go a moment later: the request may never have been read
	away                   // it was not there
	killed                 // it was killed meanwhile
)

// moment is how long a request may be on its way until it is read. A server that goes away closes the connections on which it has
// read nothing, and a client that asks on one at that time cannot be told anything.
const moment = 100 * time.Millisecond

// absent reports what a gateway did from the begin of a request to its end. One that goes politely owes an answer to all who asked before:
// a request that began in time may be sent too late, because connecting takes a while.
func (l *ledger) absent(gateway int, from, asked, to time.Time) (a absence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.gateways[gateway] {
		switch {
		case o.from.After(to) || !o.to.IsZero() && o.to.Before(from):
		case o.killed:
			return killed
		case !o.from.After(asked):
			a = max(a, away)
		case o.from.Before(asked.Add(moment)):
			a = max(a, closing)
		}
	}
	return a
}
