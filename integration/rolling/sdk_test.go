package rolling

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// program is work.py with an SDK.
type program struct {
	name string
	*client.Process
	in     io.WriteCloser
	events chan event
}

// event is a line of it.
type event struct {
	Event   string `json:"event"`
	Done    int    `json:"done"`
	Again   int    `json:"again"`
	Class   string `json:"class"`
	Message string `json:"message"`
}

// startSDKs starts, with the oldest and the newest SDK, a program that follows a command and one that makes short calls. It
// returns when all of them do.
func startSDKs(t *testing.T, s *stage) (programs []*program) {
	t.Helper()
	d := client.Deployment{APIURL: s.balancer.URL, SandboxURL: s.balancer.URL, APIKey: apiKey, TemplateID: "python:3.11", CAFile: s.balancer.CAFile}
	for _, sdk := range []string{"py-2.34.0-sync", "py-newest-sync"} {
		for _, work := range []string{"follow", "calls"} {
			in, order := io.Pipe()
			t.Cleanup(func() { order.Close() })
			p := &program{name: sdk + " " + work, in: order, events: make(chan event, 1000)}
			p.Process = client.Start(t, client.Named(t, sdk), d, client.Program{
				Folder: "integration/rolling", Name: "work", Args: []string{"--work", work}, Limit: 10 * time.Minute, Stdin: in,
			})
			go func() {
				defer close(p.events)
				for p.Out.Scan() {
					var e event
					if err := json.Unmarshal(p.Out.Bytes(), &e); err != nil {
						e = event{Event: "garbage", Message: p.Out.Text()}
					}
					p.events <- e
				}
			}()
			programs = append(programs, p)
		}
	}
	for _, p := range programs {
		if e := p.next(t); e.Event != "working" {
			t.Fatalf("%s: %+v\n%s", p.name, e, p.Stderr())
		}
	}
	return programs
}

func (p *program) next(t *testing.T) event {
	t.Helper()
	select {
	case e := <-p.events:
		return e
	case <-time.After(patience):
		t.Fatalf("%s says nothing\n%s", p.name, p.Stderr())
		return event{}
	}
}

// finish ends the program, in which nothing must have failed. One that follows a command was told of its gateway's end.
func (p *program) finish(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.in, "stop\n"); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	for {
		e := p.next(t)
		switch e.Event {
		case "end":
			t.Logf("%s: %d done, followed again %d times", p.name, e.Done, e.Again)
			if e.Done == 0 {
				t.Errorf("%s has done nothing", p.name)
			}
			return
		default:
			t.Errorf("%s: %s %s: %s\n%s", p.name, e.Event, e.Class, e.Message, p.Stderr())
			if e.Event == "" {
				return
			}
		}
	}
}
