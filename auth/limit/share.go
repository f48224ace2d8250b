package limit

import (
	"maps"
	"sync"
	"time"
)

// Usage is what one gateway tells the others: what it has admitted since it told
// them last, and every stream that it has.
type Usage struct {
	// Gateway tells the gateways apart.
	Gateway   string         `json:"gateway"`
	Keys      map[string]Use `json:"keys,omitempty"`
	Sandboxes map[string]Use `json:"sandboxes,omitempty"`
}

// Use is a part of it.
type Use struct {
	// Requests and Creates are how many, each of which takes so many
	// nanoseconds of what is allowed.
	Requests    int64 `json:"r,omitempty"`
	RequestEach int64 `json:"re,omitempty"`
	Creates     int64 `json:"c,omitempty"`
	CreateEach  int64 `json:"ce,omitempty"`
	Streams     int64 `json:"s,omitempty"`
}

// silence is after how long a gateway that says nothing has no streams any more.
const silence = 5 * time.Second

// others are the streams of other gateways.
type others struct {
	mu       sync.Mutex
	gateways map[string]*other
}

type other struct {
	heard           time.Time
	keys, sandboxes map[string]int64
}

// Report is what is to be told to the other gateways, and forgets who does
// nothing any more. It is called a few times a second, by one goroutine.
func (l *Limiter) Report() Usage {
	l.expire()
	now := l.now().UnixNano()
	return Usage{Keys: l.keys.report(now), Sandboxes: l.sandboxes.report(now)}
}

// Quiet reports a usage that needs no telling, when the one before was quiet too.
func (u Usage) Quiet() bool { return len(u.Keys) == 0 && len(u.Sandboxes) == 0 }

// Standing reports a usage that says nothing but what v said and what holds until something
// else is said: the same streams, and nothing that was admitted meanwhile.
func (u Usage) Standing(v Usage) bool {
	return maps.Equal(u.Keys, v.Keys) && maps.Equal(u.Sandboxes, v.Sandboxes) && onlyStreams(u.Keys) && onlyStreams(u.Sandboxes)
}

func onlyStreams(uses map[string]Use) bool {
	for _, u := range uses {
		if u.Requests != 0 || u.Creates != 0 {
			return false
		}
	}
	return true
}

func (t *table) report(now int64) map[string]Use {
	var uses map[string]Use
	t.sweep(now, func(id string, u *use) {
		told := Use{
			Requests: max(u.admitted[requests].Swap(0), 0),
			Creates:  max(u.admitted[creates].Swap(0), 0),
			Streams:  u.streams.Load(),
		}
		if told == (Use{}) {
			return
		}
		told.RequestEach, told.CreateEach = u.each[requests].Load(), u.each[creates].Load()
		if uses == nil {
			uses = map[string]Use{}
		}
		uses[id] = told
	})
	return uses
}

// Heard takes note of what another gateway has told.
func (l *Limiter) Heard(usage Usage) {
	now := l.now()
	l.others.mu.Lock()
	defer l.others.mu.Unlock()
	o := l.others.gateways[usage.Gateway]
	if o == nil {
		if l.others.gateways == nil {
			l.others.gateways = map[string]*other{}
		}
		o = &other{}
		l.others.gateways[usage.Gateway] = o
	}
	o.heard = now
	o.keys = l.keys.heard(usage.Keys, o.keys, now.UnixNano())
	o.sandboxes = l.sandboxes.heard(usage.Sandboxes, o.sandboxes, now.UnixNano())
}

// heard adds what is new and returns the streams that there are, before of which
// there were.
func (t *table) heard(uses map[string]Use, before map[string]int64, now int64) map[string]int64 {
	var streams map[string]int64
	for id, told := range uses {
		t.with(id, now, func(u *use) {
			if told.Requests > 0 && told.RequestEach > 0 {
				u.spent(requests, told.Requests, told.RequestEach, now)
			}
			if told.Creates > 0 && told.CreateEach > 0 {
				u.spent(creates, told.Creates, told.CreateEach, now)
			}
			if told.Streams > 0 || before[id] > 0 {
				u.elsewhere.Add(max(told.Streams, 0) - before[id])
			}
		})
		if told.Streams > 0 {
			if streams == nil {
				streams = map[string]int64{}
			}
			streams[id] = told.Streams
		}
	}
	for id, n := range before {
		if _, still := uses[id]; !still {
			t.with(id, now, func(u *use) { u.elsewhere.Add(-n) })
		}
	}
	return streams
}

// expire forgets the streams of gateways that have fallen silent.
func (l *Limiter) expire() {
	now := l.now()
	l.others.mu.Lock()
	defer l.others.mu.Unlock()
	for name, o := range l.others.gateways {
		if now.Sub(o.heard) > silence {
			l.keys.heard(nil, o.keys, now.UnixNano())
			l.sandboxes.heard(nil, o.sandboxes, now.UnixNano())
			delete(l.others.gateways, name)
		}
	}
}
