package handlers

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// The client waits for EndStream although it has everything else.
func TestAResultIsNotHeldBackBySilence(t *testing.T) {
	g := newRig(t)
	left := make(chan struct{})
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", stream)
		io.WriteString(w, frame(0, `{"event":{"end":{"exited":true,"status":"exit status 0"}}}`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	}
	begun := time.Now()
	messages, end := g.call(t, "POST", start, stream, "{}").frames(t)
	if took := time.Since(begun); len(messages) != 1 || end != "{}" || took > 10*time.Second {
		t.Errorf("%q, %s after %v", messages, end, took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-left:
	case <-ctx.Done():
		t.Error("the upstream's connection was kept")
	}
	g.wantEnd(t, cause.OK)
}

// ROCK refuses calls to a container that has ended while its record still says
// running.
func TestACallToADyingSandboxIsToldWhatItDiesOf(t *testing.T) {
	const unavailable = `{"code":"unavailable","message":"sandbox command service is unavailable"}`
	for name, tc := range map[string]struct {
		state routing.State
		err   error
		want  string
	}{
		"killed":   {0, routing.ErrGone, "unavailable"},
		"paused":   {routing.StatePaused, nil, "failed_precondition"},
		"it lives": {routing.StateRunning, nil, "aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(o *Options) { o.LookBound = 2 * time.Second })
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				time.AfterFunc(300*time.Millisecond, func() { g.registry.say(tc.state, tc.err) })
				answerWith(200, stream, frame(2, `{"error":`+unavailable+`}`))(w, r)
			}
			if code, message := g.call(t, "POST", start, stream, "").endError(t); code != tc.want {
				t.Errorf("stream: %s %s", code, message)
			}
		})
		t.Run(name+", unary", func(t *testing.T) {
			g := newRig(t, func(o *Options) { o.LookBound = 2 * time.Second })
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				time.AfterFunc(300*time.Millisecond, func() { g.registry.say(tc.state, tc.err) })
				answerWith(503, unary, unavailable)(w, r)
			}
			if code, message := g.call(t, "POST", stat, unary, "{}").connect(t); code != tc.want {
				t.Errorf("unary: %s %s", code, message)
			}
		})
	}
}

// The registry is of no help, but the gateway has carried the kill itself.
func TestAKillDuringTheSearchForTheCauseIsTheCause(t *testing.T) {
	g := newRig(t, func(o *Options) { o.LookBound = time.Second })
	g.admin = answerWith(204, unary, "")
	killed := make(chan struct{})
	g.proxy = func(w http.ResponseWriter, _ *http.Request) {
		g.registry.say(0, routing.ErrUnavailable)
		time.AfterFunc(200*time.Millisecond, func() {
			defer close(killed)
			g.send(t, "DELETE", "/sandboxes/sbx-1", "", "")
		})
		w.Header().Set("Content-Type", stream)
		reset(w, frame(0, "{}"))
	}
	if code, message := g.call(t, "POST", start, stream, "").endError(t); code != "unavailable" {
		t.Errorf("%s %s", code, message)
	}
	<-killed
}
