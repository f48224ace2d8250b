package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Behind a head that was sent nobody can be told why the rest does not come. Field reports
// A02 and A12.
func TestAShortAnswerThatIsCutIsToldAsWhatItIs(t *testing.T) {
	for name, of := range map[string]struct{ method, target, kind, length string }{
		"a unary call":                   {"POST", stat, unary, "1000"},
		"a unary call of unknown length": {"POST", stat, unary, ""},
		"a file":                         {"GET", "/files?path=x", "", "1000"},
		"what became of an upload":       {"POST", "/files?path=x", "application/octet-stream", "1000"},
	} {
		for now, tc := range map[string]struct {
			state  routing.State
			err    error
			status int
			end    cause.Cause
		}{
			"gone":       {0, routing.ErrGone, 502, cause.SandboxGone},
			"paused":     {routing.StatePaused, nil, 400, cause.SandboxPaused},
			"there":      {routing.StateRunning, nil, 500, cause.UpstreamReset},
			"don't know": {0, routing.ErrUnavailable, 500, cause.UpstreamReset},
		} {
			t.Run(name+", "+now, func(t *testing.T) {
				g := newRig(t, func(o *Options) { o.LookBound = time.Second })
				g.proxy = func(w http.ResponseWriter, _ *http.Request) {
					g.registry.say(tc.state, tc.err)
					w.Header().Set("Content-Type", unary)
					if of.length != "" {
						w.Header().Set("Content-Length", of.length)
					}
					reset(w, `{"part":`)
				}
				r := g.call(t, of.method, of.target, of.kind, "{}")
				if r.err != nil || r.status != tc.status || strings.Contains(r.body, "part") || !strings.Contains(r.body, "sbx-1") {
					t.Errorf("%d %q, %v", r.status, r.body, r.err)
				}
				g.wantEnd(t, tc.end)
			})
		}
	}
}

// All of it is the client's, also what comes slowly.
func TestAShortAnswerThatComesInPiecesArrives(t *testing.T) {
	for name, length := range map[string]string{"known": fmt.Sprint(3 * len(pieceOf)), "unknown": ""} {
		g := newRig(t)
		g.proxy = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", unary)
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			for range 3 {
				fmt.Fprint(w, pieceOf)
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}
		if r := g.call(t, "POST", stat, unary, "{}"); r.err != nil || r.status != 200 || r.body != strings.Repeat(pieceOf, 3) {
			t.Errorf("%s: %d %q, %v", name, r.status, r.body, r.err)
		}
		g.wantEnd(t, cause.OK)
	}
}

const pieceOf = "[1,2,3]  "

// A long one begins when it is there, and looks cut where it is.
func TestALongAnswerIsNotWaitedFor(t *testing.T) {
	for name, length := range map[string]string{"known": fmt.Sprint(10 * maxWhole), "unknown": ""} {
		g := newRig(t)
		g.proxy = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", unary)
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			reset(w, strings.Repeat("x", maxWhole+1))
		}
		if r := g.call(t, "POST", stat, unary, "{}"); r.err == nil || r.status != 200 || len(r.body) != maxWhole+1 {
			t.Errorf("%s: %d, %d bytes, %v", name, r.status, len(r.body), r.err)
		}
		g.wantEnd(t, cause.Truncated)
	}
}
