package handlers

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

func TestPauseIsRocksStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, body := range []string{`{"memory":true}`, `{}`, ``, `{"memory":false,"requireHealthyGuest":true,"force":true}`} {
			w := newWard(t)
			if _, _, err := w.gateway.opt.Routes.Lookup(t.Context(), "alices"); err != nil {
				t.Fatal(err)
			}
			if r := w.life("pause", body); r.status != 204 || r.body != "" || w.asked() != `stop {"sandbox_id":"alices"}` {
				t.Errorf("%s: %d %s", body, r.status, r.body)
			}
			if route, _, err := w.gateway.opt.Routes.Lookup(t.Context(), "alices"); err != nil || route.State != routing.StatePaused {
				t.Errorf("%+v, %v", route, err)
			}
			r := w.life("pause", body)
			if code, message := r.e2b(t); r.status != 409 || code != 409 || message != "The sandbox is paused already" || w.asked() != "" {
				t.Errorf("again: %d %s", r.status, r.body)
			}
		}
	})
}

func TestWhatBecomesOfAPauseIsToldAsItIs(t *testing.T) {
	refusal := answerWith(200, unary, `{"status":"Failed","error":"Sandbox alices not found","result":{"code":4000}}`)
	for name, tc := range map[string]struct {
		instead http.HandlerFunc
		then    string // what the sandbox is by then
		status  int
	}{
		"not dialled":         {refuseDial, "running", 503},
		"lost":                {lose, "running", 500},
		"a ROCK without stop": {answerWith(404, unary, `{"detail":"Not Found"}`), "running", 501},
		"failed":              {answerWith(200, unary, `{"status":"Failed","error":"x","result":{"code":5000}}`), "running", 500},
		"refused":             {refusal, "running", 500},
		"paused meanwhile":    {refusal, "stopped", 409},
		"killed meanwhile":    {refusal, "deleted", 404},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t)
			w.instead["/stop"] = func(rw http.ResponseWriter, r *http.Request) {
				w.become(tc.then)
				tc.instead(rw, r)
			}
			if r := w.life("pause", `{}`); r.status != tc.status {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
		})
	}
}

func TestAPauseWithoutTheOptionIsRocksToAnswer(t *testing.T) {
	w := newWard(t, func(o *Options) { o.Clusters[0].Stops = false })
	w.instead["/pause"] = answerWith(200, unary, `{"forced":false}`)
	if r := w.life("pause", pauseBody); r.status != 200 || r.body != `{"forced":false}` || w.asked() != "pause "+pauseBody {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// streamOf has a stream of the sandbox run until the test ends, and returns what it is told.
func (w *ward) streamOf(t *testing.T, id string) <-chan cause.Cause {
	told := make(chan cause.Cause, 1)
	stream := &running{seen: new(sight), route: &routing.Route{SandboxID: id}, cancel: cancelFunc(func(err error) {
		var why ended
		if errors.As(err, &why) {
			told <- why.cause
		}
	})}
	w.gateway.streams.add(stream)
	t.Cleanup(func() { w.gateway.streams.remove(stream) })
	return told
}

// The streams of a sandbox hear of the pause from the call, and not from a connection
// that breaks.
func TestAPauseTellsTheStreamsOfTheSandbox(t *testing.T) {
	w := newWard(t)
	told := w.streamOf(t, "alices")
	if r := w.life("pause", `{}`); r.status != 204 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := <-told; got != cause.SandboxPaused {
		t.Errorf("%v", got)
	}
}

// Published ROCK deletes what it stops, unless it is told otherwise: that is no pause. A kill beside the pause looks the
// same, so no other pause is refused for it, and one tenant cannot take pauses away from all.
func TestAPauseAfterWhichTheSandboxIsGoneIsNoPauseAndSaysNothingOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		told := w.streamOf(t, "alices")
		w.instead["/stop"] = func(rw http.ResponseWriter, r *http.Request) {
			w.become("deleted")
			answerWith(200, unary, `{"status":"Success","result":"alices stopped"}`)(rw, r)
		}
		if r := w.life("pause", `{}`); r.status != 404 {
			t.Errorf("%d %s", r.status, r.body)
		}
		if got := <-told; got != cause.SandboxGone {
			t.Errorf("its stream heard %v", got)
		}
		delete(w.instead, "/stop")
		w.become("running")
		time.Sleep(time.Minute) // that it was gone is forgotten
		if r := w.life("pause", `{}`); r.status != 204 {
			t.Errorf("the next one: %d %s", r.status, r.body)
		}
	})
}

// ROCK may have deleted what it has stopped, so that nobody knows what the pause was if nobody can say what is left.
func TestAPauseOfWhichNobodyKnowsWhatIsLeftIsNoPause(t *testing.T) {
	for name, becomes := range map[string]func(*ward){
		"the registry is out":            func(w *ward) { w.records.fail(routing.ErrUnavailable) },
		"its record cannot be read":      func(w *ward) { w.records.fail(routing.ErrMalformed) },
		"evicted, and ROCK is not asked": func(w *ward) { w.records.set("alices", routing.StateStopped, routing.Owner{}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t)
			told := w.streamOf(t, "alices")
			w.instead["/stop"] = func(rw http.ResponseWriter, r *http.Request) {
				becomes(w)
				answerWith(200, unary, `{"status":"Success","result":"alices stopped"}`)(rw, r)
			}
			if r := w.life("pause", `{}`); r.status != 500 || !strings.Contains(r.body, "the outcome of this call is unknown") {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
			select {
			case got := <-told:
				t.Errorf("%s: its stream heard %v", name, got)
			default:
			}
		})
	}
}
