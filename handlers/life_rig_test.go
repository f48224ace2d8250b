package handlers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// ward is a desk whose ROCK lets sandboxes live: alices can be described, prolonged,
// stopped and restarted.
type ward struct {
	*desk
	mu     sync.Mutex
	state  string // ROCK's
	end    time.Time
	lives  int
	notes  string        // in its metadata, as JSON members
	starts time.Duration // how long a restart takes until it runs
	runsAt time.Time
	phases string // of a start that fails
	// instead answers in ROCK's place, by the end of the path.
	instead map[string]http.HandlerFunc
	calls   []string
}

func newWard(t testing.TB, change ...func(*Options)) *ward {
	t.Helper()
	w := &ward{state: "running", end: time.Now().Add(10 * time.Minute), instead: map[string]http.HandlerFunc{}}
	w.desk = newDeskWith(t, func(o *Options) {
		o.Clusters[0].Restarts, o.Clusters[0].Stops = true, true
		for _, c := range change {
			c(o)
		}
	})
	w.rock = w.serve
	w.publish()
	return w
}

// publish makes the registry say what ROCK knows.
func (w *ward) publish() {
	state := map[string]routing.State{"running": routing.StateRunning, "pending": routing.StateStarting, "stopped": routing.StatePaused}[w.state]
	if w.state == "deleted" {
		w.records.forget("alices")
		return
	}
	w.records.put(&routing.Route{SandboxID: "alices", State: state, Lifecycle: fmt.Sprint("life", w.lives), Owner: noted("alice", alice)})
}

func (w *ward) become(state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	w.publish()
}

// asked are the calls that ROCK got since the last time, without those that only ask.
func (w *ward) asked() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := strings.Join(w.calls, ", ")
	w.calls = nil
	return calls
}

func (w *ward) serve(rw http.ResponseWriter, r *http.Request) {
	path := r.URL.Opaque
	body := ""
	if r.GetBody != nil {
		b, _ := r.GetBody()
		content, _ := io.ReadAll(b)
		body = string(content)
	}
	w.mu.Lock()
	if r.Method != http.MethodGet {
		w.calls = append(w.calls, strings.TrimSpace(path[strings.LastIndex(path, "/")+1:]+" "+body))
	}
	for end, serve := range w.instead {
		if strings.HasSuffix(path, end) {
			w.mu.Unlock()
			serve(rw, r)
			return
		}
	}
	defer w.mu.Unlock()
	refused := func(why string) {
		answerWith(200, unary, `{"status":"Failed","message":"m","error":"`+why+`","result":{"code":4000}}`)(rw, r)
	}
	switch {
	case strings.HasSuffix(path, "/restart"):
		if w.state != "stopped" {
			refused("Sandbox alices cannot be restarted: current state is '" + w.state + "'")
			return
		}
		w.state, w.end, w.runsAt = "pending", time.Now().Add(time.Hour), time.Now().Add(w.starts)
		w.lives++
		w.publish()
		answerWith(200, unary, `{"status":"Success","result":{"sandbox_id":"alices"}}`)(rw, r)
	case strings.HasSuffix(path, "/get_status"):
		if w.state == "pending" && w.phases == "" && !time.Now().Before(w.runsAt) {
			w.state = "running"
			w.publish()
		}
		if w.state != "running" && w.state != "pending" {
			refused("Sandbox alices not found")
			return
		}
		answerWith(200, unary, `{"status":"Success","result":{"state":"`+w.state+`","status":{`+w.phases+`}}}`)(rw, r)
	case strings.HasSuffix(path, "/stop"):
		if w.state != "running" {
			refused("Sandbox alices is not running")
			return
		}
		w.state = "stopped"
		w.publish()
		answerWith(200, unary, `{"status":"Success","result":"alices stopped"}`)(rw, r)
	case strings.HasSuffix(path, "/timeout"):
		var asked struct{ Timeout int64 }
		if json.Unmarshal([]byte(body), &asked) != nil || w.state != "running" {
			answerWith(404, unary, `{"code":404,"message":"sandbox alices not found"}`)(rw, r)
			return
		}
		w.end = time.Now().Add(time.Duration((asked.Timeout+59)/60) * time.Minute)
		rw.WriteHeader(204)
	case path == "/sandboxes/alices" && w.state != "deleted":
		e2b := map[string]string{"running": "running", "pending": "running", "stopped": "paused"}[w.state]
		answerWith(200, unary, `{"sandboxID":"alices","templateID":"python:3.11","clientID":"rock","envdVersion":"0.3.0","state":"`+e2b+
			`","cpuCount":2,"endAt":"`+w.end.Format(time.RFC3339)+`","metadata":{"job":"x"`+w.notes+`}}`)(rw, r)
	default:
		answerWith(404, unary, `{"code":404,"message":"sandbox not found"}`)(rw, r)
	}
}

// life makes one of the calls of this file as alice.
func (w *ward) life(call, body string) reply {
	return w.ask(alice, "POST", "/sandboxes/alices/"+call, body)
}

// left is how much time the sandbox has.
func (w *ward) left() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.end)
}

// lose breaks the connection after the call was sent.
func lose(http.ResponseWriter, *http.Request) { panic(errLost) }

// refuseDial keeps the call from being sent.
func refuseDial(http.ResponseWriter, *http.Request) { panic(&upstream.DialError{Err: errDown}) }
