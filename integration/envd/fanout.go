package envd

import (
	"sync"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
)

// fanout carries one command's events to everyone who listens. Nothing is kept for later listeners, and a listener that does
// not keep up holds the command back, as a full pipe would.
type fanout struct {
	// abort unblocks publish for good.
	abort <-chan struct{}

	mu        sync.Mutex
	listeners map[*listener]struct{}
	// last is the end event once there is one.
	last *processpb.ProcessEvent
}

// listener receives events until the end event, after which the channel is closed. It must leave when done.
type listener struct {
	events chan *processpb.ProcessEvent
	gone   chan struct{}
	leave  func()
}

func newFanout(abort <-chan struct{}) *fanout {
	return &fanout{abort: abort, listeners: make(map[*listener]struct{})}
}

// listen joins; one who comes too late gets the end event only.
func (f *fanout) listen() *listener {
	l := &listener{events: make(chan *processpb.ProcessEvent, 16), gone: make(chan struct{})}
	l.leave = sync.OnceFunc(func() {
		close(l.gone)
		f.mu.Lock()
		delete(f.listeners, l)
		f.mu.Unlock()
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		l.events <- f.last
		close(l.events)
		return l
	}
	f.listeners[l] = struct{}{}
	return l
}

// publish hands an event to every listener. Safe to call from several goroutines.
func (f *fanout) publish(event *processpb.ProcessEvent) {
	for _, l := range f.snapshot() {
		select {
		case l.events <- event:
		case <-l.gone:
		case <-f.abort:
		}
	}
}

// finish publishes the end event and closes every listener. No publish may run or follow.
func (f *fanout) finish(end *processpb.ProcessEvent) {
	f.mu.Lock()
	f.last = end
	f.mu.Unlock()
	f.publish(end)
	for _, l := range f.snapshot() {
		close(l.events)
	}
}

func (f *fanout) snapshot() []*listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*listener, 0, len(f.listeners))
	for l := range f.listeners {
		all = append(all, l)
	}
	return all
}
