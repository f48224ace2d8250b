package handlers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/routing"
)

// watching is a watchdog at the start of a call. err is why it gave up.
func watching(t *testing.T, d *watchdog) (err func() error) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d.call, d.lasting = cancelFunc(cancel), true
	if d.ResponseWriter == nil {
		d.ResponseWriter = httptest.NewRecorder()
	}
	d.control = *http.NewResponseController(d.ResponseWriter)
	d.watch()
	t.Cleanup(d.stop)
	return func() error { return context.Cause(ctx) }
}

// Field report C01: a command that says nothing for longer than the limits of balancers
// goes on while its sandbox says that it lives.
func TestSilenceIsBoundedFromTheFirstKeepaliveMessageOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle, alive := idleLimits(0, 50*time.Second)
		d := &watchdog{idle: idle, alive: alive}
		err := watching(t, d)
		body := d.listen(io.NopCloser(strings.NewReader(strings.Repeat(".", 20))))
		time.Sleep(time.Hour)
		if err() != nil {
			t.Fatalf("a stream that never promised anything was given up: %v", err())
		}
		one := make([]byte, 1)
		for range 14 { // 11 minutes of keepalive messages alone
			body.Read(one)
			d.keepalive()
			time.Sleep(50 * time.Second)
		}
		time.Sleep(100 * time.Second) // two are missing
		body.Read(one)
		time.Sleep(150 * time.Second)
		if err() != nil {
			t.Fatalf("given up too early: %v", err())
		}
		time.Sleep(50 * time.Second)
		if !errors.Is(err(), ended{cause.UpstreamIdle}) {
			t.Fatalf("still waiting: %v", err())
		}
	})
}

func TestTheOperatorsBoundHoldsFromTheStart(t *testing.T) {
	for name, tc := range map[string]struct {
		configured time.Duration
		lives, end time.Duration
	}{
		"longer than the keepalive messages need": {10 * time.Minute, 599 * time.Second, 601 * time.Second},
		"shorter": {time.Second, 124 * time.Second, 126 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				idle, alive := idleLimits(tc.configured, 50*time.Second)
				err := watching(t, &watchdog{idle: idle, alive: alive})
				time.Sleep(tc.lives)
				if err() != nil {
					t.Fatal(err())
				}
				time.Sleep(tc.end - tc.lives)
				if !errors.Is(err(), ended{cause.UpstreamIdle}) {
					t.Fatalf("still waiting: %v", err())
				}
			})
		})
	}
	if idle, alive := idleLimits(-1, time.Second); idle != 0 || alive != 0 {
		t.Errorf("off is %v, %v", idle, alive)
	}
}

// Silence is counted only while the sandbox could speak and be heard.
func TestTheSandboxMaySilentlyListenAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := &streamedBody{}
		d := &watchdog{idle: time.Minute, body: sent}
		err := watching(t, d)
		time.Sleep(time.Hour)
		if err() != nil {
			t.Fatalf("given up while the client was sending: %v", err())
		}
		sent.whole.Store(true)
		d.begin(0)
		time.Sleep(time.Hour)
		d.done()
		time.Sleep(59 * time.Second)
		if err() != nil {
			t.Fatalf("given up although the client had only just taken the last message: %v", err())
		}
		time.Sleep(2 * time.Second)
		if err() == nil {
			t.Fatal("still waiting")
		}
	})
}

// slowClient takes as much as it must every so often.
type slowClient struct {
	*httptest.ResponseRecorder
	pause   time.Duration
	dropped chan struct{}
}

func (c *slowClient) Write(p []byte) (int, error) {
	parts := (len(p) + patience - 1) / patience
	select {
	case <-time.After(time.Duration(parts) * c.pause):
		return c.ResponseRecorder.Write(p)
	case <-c.dropped:
		return 0, errors.New("deadline")
	}
}

func (c *slowClient) SetWriteDeadline(time.Time) error {
	close(c.dropped)
	return nil
}

// Field report C11.
func TestASlowClientStaysAndAStuckOneIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowClient{httptest.NewRecorder(), 50 * time.Second, make(chan struct{})}
		d := &watchdog{ResponseWriter: slow, stall: time.Minute}
		err := watching(t, d)
		held := strings.Repeat("x", 10*maxWrite+patience+1) // one long envelope
		if n, werr := d.Write([]byte(held)); n != len(held) || werr != nil || err() != nil {
			t.Fatalf("%d %v, %v", n, werr, err())
		}
		if slow.Body.String() != held {
			t.Error("what arrived is not what was sent")
		}
		slow.pause = time.Hour
		began := time.Now()
		if n, werr := d.Write([]byte(held)); n != 0 || werr == nil {
			t.Fatalf("%d %v", n, werr)
		}
		if took := time.Since(began); took < maxWrite/patience*time.Minute || took > (maxWrite/patience+1)*time.Minute {
			t.Errorf("dropped after %v", took)
		}
		synctest.Wait() // the write fails a moment before the call is given up
		if !d.stalled.Load() || !errors.Is(err(), ended{cause.ClientStalled}) {
			t.Errorf("%v", err())
		}
	})
}

func TestTheKeepaliveIntervalIsTheClients(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"50": 50 * time.Second, "0.5": 500 * time.Millisecond, "": defaultKeepalive, "-1": defaultKeepalive, "x": defaultKeepalive,
		"NaN": defaultKeepalive, "Inf": defaultKeepalive, "1e9": defaultKeepalive, "0": defaultKeepalive,
	} {
		if got := keepaliveInterval(http.Header{"Keepalive-Ping-Interval": {value}}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// The whole way: a sandbox that has gone silent is given up, and its registry
// says why. Field report C08: a unary call is told which side was silent, and that the
// sandbox may be alive.
func TestASilentSandboxEndsItsCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		state        routing.State
		err          error
		target, kind string
		code         string
		end          cause.Cause
	}{
		"stream, still registered": {routing.StateRunning, nil, start, stream, "aborted", cause.UpstreamIdle},
		"stream, gone":             {0, routing.ErrGone, start, stream, "unavailable", cause.SandboxGone},
		"stream, paused":           {routing.StatePaused, nil, start, stream, "failed_precondition", cause.SandboxPaused},
		"unary":                    {routing.StateRunning, nil, stat, unary, "aborted", cause.UpstreamIdle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(o *Options) { o.UpstreamIdle = 200 * time.Millisecond })
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				g.registry.say(tc.state, tc.err)
				if tc.kind == unary {
					io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
					return
				}
				silent(w, r)
			}
			r := g.call(t, "POST", tc.target, tc.kind, "{}", "Keepalive-Ping-Interval", "0.01")
			var code, message string
			if tc.kind == stream {
				code, message = r.endError(t)
			} else {
				code, message = r.connect(t)
			}
			if code != tc.code || tc.kind == unary && (r.status != 504 || message != "Sandbox sbx-1 sent nothing for too long; it may still be running, but the outcome of this call is unknown") {
				t.Errorf("%d %s %s", r.status, code, message)
			}
			g.wantEnd(t, tc.end)
		})
	}
}

func TestAClientThatTakesNothingIsDroppedAndItsCommandLetGo(t *testing.T) {
	g := newRig(t, func(o *Options) { o.ClientStall = 300 * time.Millisecond })
	left := make(chan struct{})
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		w.Header().Set("Content-Type", stream)
		for message := []byte(frame(0, strings.Repeat("x", 8<<10))); ; {
			if _, err := w.Write(message); err != nil {
				return
			}
		}
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 49983\r\nContent-Length: 0\r\n\r\n", start, stream)
	if _, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Fatal("the sandbox is still held back")
	}
	g.wantEnd(t, cause.ClientStalled)
}

// readAhead is a body that knows what it has ready.
type readAhead struct{ io.ReadCloser }

func (readAhead) Buffered() int { return 7 }
func (readAhead) Ready() int    { return 8 }

// Without it the relay would write and flush message by message.
func TestAWatchedBodyStillKnowsWhatItHasReady(t *testing.T) {
	d := &watchdog{}
	var heard envelope.Ahead = new(heardBody)
	*heard.(*heardBody) = d.listen(readAhead{http.NoBody})
	if heard.Ready() != 8 {
		t.Fatal("what is ready is not known any more")
	}
	*heard.(*heardBody) = d.listen(http.NoBody)
	if n := heard.Ready(); n != 0 {
		t.Fatalf("%d bytes of nothing", n)
	}
}
