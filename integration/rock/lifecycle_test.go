package rock

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// status asks the admin role for get_status; nil when it fails.
func (g *rig) status(id, query string) map[string]any {
	g.Helper()
	var answer struct {
		Status string
		Result map[string]any
	}
	g.do("GET", g.admin.URL()+native+"/get_status?sandbox_id="+id+query, "").json(g.T, &answer)
	if answer.Status != "Success" {
		return nil
	}
	return answer.Result
}

func (g *rig) restart(id string) reply {
	g.Helper()
	return g.do("POST", g.admin.URL()+native+"/sandboxes/"+id+"/restart", "")
}

func TestARestartKeepsFilesAndEndsProcesses(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("r")
	first, _ := s.Box()
	if r := g.start("r", command(`echo kept > /tmp/kept; sleep 1000 & echo`), "Connect-Timeout-Ms", "100"); r.status != 200 {
		t.Fatal(r)
	}
	if r := g.do("POST", g.admin.URL()+native+"/stop", `{"sandbox_id":"r"}`); !strings.Contains(r.body, `"result":"r stopped"`) {
		t.Fatalf("got %s", r.body)
	}
	if n := len(first.Processes()); n != 0 {
		t.Fatalf("%d processes outlived the stop", n)
	}
	if r := g.restart("r"); r.body != `{"error":null,"message":"","result":{"host_ip":"127.0.0.1","host_name":"ray-worker-1","sandbox_id":"r"},"status":"Success"}` {
		t.Fatalf("got %s", r.body)
	}
	until(t, "running", func() bool { return g.status("r", "")["is_alive"] == true })
	if got := frames(t, g.start("r", command("cat /tmp/kept")).body); len(got) < 2 || got[1] != data("stdout", "kept\n") {
		t.Fatalf("got %q", got)
	}
}

func TestARestartedSandboxIsPendingWithItsOldAddressUntilSomebodyAsks(t *testing.T) {
	g := newRig(t, Options{})
	g.create("r")
	before := g.record("alive:r")
	if err := g.c.Sandbox("r").Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	if g.record("alive:r") != nil {
		t.Fatal("a stopped sandbox has a record")
	}
	g.restart("r")
	pending := g.record("alive:r")
	for _, field := range []string{"host_ip", "start_time"} {
		if pending[field] != before[field] {
			t.Errorf("%s: got %v, was %v", field, pending[field], before[field])
		}
	}
	port := func(rec map[string]any) any { return rec["port_mapping"].(map[string]any)["22555"] }
	if pending["state"] != "pending" || port(pending) != port(before) || g.record("timeout:r") == nil {
		t.Fatalf("got %v", pending)
	}
	if r := g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "r"); r.status != 502 {
		t.Fatalf("health while pending: got %d", r.status)
	}
	until(t, "running", func() bool { g.c.Reconcile(); return g.c.Sandbox("r").State() == Running })
	if running := g.record("alive:r"); running["state"] != "running" || port(running) == port(before) {
		t.Fatalf("got %v", running)
	}
}

func TestOnlyWhatIsStoppedCanBeRestarted(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("r")
	refusal := func(why string) string {
		return `{"error":"` + why + `","message":"restart sandbox failed","result":{"code":4000,"exit_code":null,"failure_reason":"` + why + `"},"status":"Failed"}`
	}
	g.restart("no").want(t, 200, refusal("Sandbox no not found"))
	g.restart("r").want(t, 200, refusal("Sandbox r cannot be restarted: current state is 'running'"))
	if err := s.Stop(Archived); err != nil {
		t.Fatal(err)
	}
	if r := g.do("POST", g.admin.URL()+native+"/restart", `{"sandbox_id":"r"}`); !strings.Contains(r.body, `"Success"`) {
		t.Fatalf("archived: got %s", r.body)
	}
	g.restart("r").want(t, 200, refusal("Sandbox r cannot be restarted: current state is 'pending'"))
	if err := s.Stop(Deleted); err != nil {
		t.Fatal(err)
	}
	g.restart("r").want(t, 200, refusal("Sandbox r cannot be restarted: current state is 'deleted'"))
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("files of a deleted sandbox: %v", err)
	}
}

func TestARestartThatFailsLeavesAFailedPhase(t *testing.T) {
	fail := make(chan error, 2)
	fail <- nil
	g := newRig(t, Options{FailStart: func(*Sandbox) error { return <-fail }})
	s := g.create("r")
	if err := s.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	g.restart("r")
	fail <- errors.New("no space left")
	until(t, "failed", func() bool {
		phases, _ := g.status("r", "")["status"].(map[string]any)
		phase, _ := phases["image_pull"].(map[string]any)
		return phase["status"] == "failed" && phase["message"] == "no space left"
	})
}

func TestTheStatusOfWhatDoesNotRunIsShownOnDemandAndRenewsNothing(t *testing.T) {
	clk := newClock(time.Unix(1_000_000, 0))
	g := newRig(t, Options{Now: clk.now})
	s := g.create("s")
	clk.add(time.Minute)
	first := s.Expires()
	if item := g.status("s", ""); item["state"] != "running" || item["is_alive"] != true || item["image"] != "python:3.11" || item["metadata"].(map[string]any)["team"] != "a b" {
		t.Fatalf("got %v", item)
	}
	if got := s.Expires().Sub(first); got != time.Minute {
		t.Fatalf("get_status moved the deadline by %s", got)
	}
	if err := s.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	if g.status("s", "") != nil || g.status("no", "&include_all_states=true") != nil {
		t.Fatal("shown")
	}
	if item := g.status("s", "&include_all_states=true"); item["state"] != "stopped" || item["is_alive"] != false {
		t.Fatalf("got %v", item)
	}
	if g.record("timeout:s") != nil {
		t.Fatal("the timeout of a stopped sandbox came back")
	}
	for _, id := range []string{"s", "no"} { // as the real one: integration/realrock
		r := g.do("POST", g.admin.URL()+native+"/stop", `{"sandbox_id":"`+id+`"}`)
		if r.status != http.StatusOK || !strings.Contains(r.body, `"result":"`+id+` stopped"`) {
			t.Fatalf("another stop of %s: got %d %s", id, r.status, r.body)
		}
	}
}

func TestAContainersEndsAreItsOwn(t *testing.T) {
	g, made := newEnvdRig(t)
	s := g.create("l")
	g.do("GET", "http://"+s.Addr()+"/health", "").want(t, 200, "l")
	first, address, done := made["l"], s.Addr(), s.Done()
	if err := s.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	<-done
	<-first.closed
	g.restart("l")
	until(t, "running", func() bool { return g.status("l", "")["is_alive"] == true })
	g.do("GET", "http://"+s.Addr()+"/health", "").want(t, 200, "l")
	if s.Addr() == address || made["l"] == first {
		t.Fatal("the second life is the first")
	}
	s.Crash()
	<-s.Done()
}
