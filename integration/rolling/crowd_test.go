package rolling

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
	"github.com/caddy-e2b/gateway/integration/envd/processpb/processpbconnect"
)

// restarting is in every text that tells of a drain.
const restarting = "The gateway is restarting"

// counting is a command that says a number every two seconds.
const counting = "n=0; while echo $n; do n=$((n+1)); sleep 2; done"

// crowd are commands that run, each with a stream of the Connect protocol to it. A stream that a gateway has ended because it goes away
// is opened again, as the text of its end advises: the command goes on meanwhile.
type crowd struct {
	members []*member
	leave   context.CancelFunc
	left    sync.WaitGroup
}

// member is one command and who listens to it.
type member struct {
	sandbox sandbox
	client  processpbconnect.ProcessClient
	pid     uint32

	mu       sync.Mutex
	last     int     // the number that was heard last, -1 before the first
	heard    int     // of the stream that is open
	drains   int     // streams that ended because their gateway went away
	failures []error // all that a client would have to call a failure
}

// gather starts commands, spread over the sandboxes, half over HTTP/1.1 and half over HTTP/2. It returns when each has said something.
func gather(t testing.TB, s *stage, size int) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	c := &crowd{leave: cancel}
	t.Cleanup(func() { c.leave(); c.left.Wait() })
	clients := []connect.HTTPClient{s.balancer.client(t, 1), s.balancer.client(t, 2)}
	for i := range size {
		m := &member{sandbox: s.sandboxes[i%len(s.sandboxes)], last: -1}
		m.client = processpbconnect.NewProcessClient(clients[i%2], s.balancer.URL, connect.WithProtoJSON())
		c.members = append(c.members, m)
		c.left.Go(func() { m.live(ctx) })
	}
	c.await(t, func(m *member) bool { return m.heard > 0 })
	return c
}

// live listens to the command until ctx ends.
func (m *member) live(ctx context.Context) {
	for ctx.Err() == nil {
		err := m.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		m.heard = 0
		drained := isDrain(err)
		if drained {
			m.drains++
		} else {
			m.failures = append(m.failures, fmt.Errorf("sandbox %s, after number %d: %w", m.sandbox.ID, m.last, err))
		}
		failed := len(m.failures) > 3
		m.mu.Unlock()
		if failed {
			return // it has nothing more to tell
		}
	}
}

// listen opens a stream, the first or another one, and reads it to its end.
func (m *member) listen(ctx context.Context) error {
	if m.pid == 0 {
		r := connect.NewRequest(&processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", counting}}})
		m.header(r.Header())
		stream, err := m.client.Start(ctx, r)
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			if err := m.hear(stream.Msg().GetEvent()); err != nil {
				return err
			}
		}
		return stream.Err()
	}
	r := connect.NewRequest(&processpb.ConnectRequest{Process: &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: m.pid}}})
	m.header(r.Header())
	stream, err := m.client.Connect(ctx, r)
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		if err := m.hear(stream.Msg().GetEvent()); err != nil {
			return err
		}
	}
	return stream.Err()
}

func (m *member) header(h http.Header) {
	address(h, m.sandbox)
	h.Set("Keepalive-Ping-Interval", "50")
}

// hear takes an event. Numbers of one stream follow one another; between two streams, when nobody listened, some may be missing, and
// none comes twice.
func (m *member) hear(e *processpb.ProcessEvent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pid := e.GetStart().GetPid(); pid != 0 {
		m.pid = pid
	}
	if e.GetEnd() != nil {
		return errors.New("the command has ended")
	}
	for _, word := range strings.Fields(string(e.GetData().GetStdout())) {
		n, err := strconv.Atoi(word)
		if err != nil || n <= m.last || m.heard > 0 && n != m.last+1 {
			return fmt.Errorf("%q comes after %d", word, m.last)
		}
		m.last = n
		m.heard++
	}
	return nil
}

// isDrain reports whether a stream ended as a gateway ends it that goes away: in the protocol, with its cause.
func isDrain(err error) bool {
	var told *connect.Error
	return errors.As(err, &told) && connect.IsWireError(err) && told.Code() == connect.CodeAborted && strings.Contains(told.Message(), restarting)
}

// await waits until all members are in a state.
func (c *crowd) await(t testing.TB, state func(*member) bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		missing := 0
		for _, m := range c.members {
			m.mu.Lock()
			if !state(m) {
				missing++
			}
			m.mu.Unlock()
		}
		if missing == 0 {
			return
		}
		select {
		case <-poll.C:
		case <-limit.C:
			c.report(t)
			t.Fatalf("%d of %d streams are not where they should be", missing, len(c.members))
		}
	}
}

// report tells what went wrong, and returns how many streams a gateway has ended.
func (c *crowd) report(t testing.TB) (drains int) {
	t.Helper()
	for _, m := range c.members {
		m.mu.Lock()
		drains += m.drains
		for _, err := range m.failures {
			t.Errorf("a stream ended otherwise: %v", err)
		}
		m.mu.Unlock()
	}
	return drains
}
