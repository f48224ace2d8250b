package rolling

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// load are small calls of all kinds at a steady rate, each of which is made once.
type load struct {
	stop context.CancelFunc
	over sync.WaitGroup

	mu       sync.Mutex
	calls    map[string]int
	failures []error
	lasted   time.Duration
}

// callers is how many calls are made at a time. A machine that cannot keep up makes fewer a second, and is not buried.
const callers = 64

// steady makes so many calls a second until it is stopped.
func steady(t testing.TB, s *stage, rate int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	l := &load{stop: cancel, calls: map[string]int{}}
	t.Cleanup(func() { l.stop(); l.over.Wait() })
	clients := []*http.Client{s.balancer.client(t, 1), s.balancer.client(t, 2)}
	for i := range s.sandboxes {
		if err := s.call(clients[0], put(&s.sandboxes[i]), nil); err != nil {
			t.Fatal(err)
		}
	}
	numbers := make(chan int)
	for range callers {
		l.over.Go(func() {
			for n := range numbers {
				l.make(s, clients[n/2%2], n)
			}
		})
	}
	l.over.Go(func() {
		defer close(numbers)
		begun := time.Now()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-ctx.Done():
				l.lasted = time.Since(begun)
				return
			case <-tick.C:
			}
			for due := int(time.Since(begun).Seconds() * float64(rate)); n < due; n++ {
				numbers <- n
			}
		}
	})
	return l
}

const content = "what is in the file\n"

func put(to *sandbox) request {
	return request{method: http.MethodPost, path: "/files?path=/tmp/rolling&username=root", body: content, sandbox: to, status: http.StatusOK}
}

// make makes the n-th call, and counts it. Nine of ten are of the data plane.
func (l *load) make(s *stage, client *http.Client, n int) {
	if n%100 == 0 {
		var made sandbox
		l.count("create", s.call(client, request{method: http.MethodPost, path: "/sandboxes", body: `{"templateID": "python:3.11", "timeout": 60}`, key: true, status: http.StatusCreated}, &made))
		l.count("kill", s.call(client, request{method: http.MethodDelete, path: "/sandboxes/" + made.ID, key: true, status: http.StatusNoContent}, nil))
		return
	}
	to := &s.sandboxes[n/10%len(s.sandboxes)]
	switch n % 10 {
	case 0:
		l.count("info", s.call(client, request{method: http.MethodGet, path: "/sandboxes/" + to.ID, key: true, status: http.StatusOK}, nil))
	case 1:
		l.count("health", s.call(client, request{method: http.MethodGet, path: "/health", sandbox: to, status: http.StatusNoContent}, nil))
	case 2:
		l.count("read", s.call(client, request{method: http.MethodGet, path: "/files?path=/tmp/rolling&username=root", sandbox: to, status: http.StatusOK}, nil))
	default:
		l.count("stat", s.call(client, request{method: http.MethodPost, path: "/filesystem.Filesystem/Stat", body: `{"path": "/tmp/rolling"}`, sandbox: to, status: http.StatusOK}, nil))
	}
}

func (l *load) count(kind string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[kind]++
	if err != nil {
		l.failures = append(l.failures, err)
	}
}

// finish ends the load and returns how many calls there were. Each that failed is an error of the test.
func (l *load) finish(t testing.TB) (calls int) {
	t.Helper()
	l.stop()
	l.over.Wait()
	for kind, n := range l.calls {
		calls += n
		t.Logf("%6d %s", n, kind)
	}
	for i, err := range l.failures {
		if i == 10 {
			t.Errorf("and %d more", len(l.failures)-i)
			break
		}
		t.Errorf("a call failed: %v", err)
	}
	return calls
}
