//go:build realrock

package realrock

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// health is the gateway's answer for a sandbox.
func health(t *testing.T, g *harness.Process, id string) (int, string) {
	t.Helper()
	return ask(t, http.MethodGet, g.URL+"/health", "", "E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49983")
}

// survivesRestarts: whatever of ROCK is killed, the sandbox is never called gone, and all works again once it is back.
func (s *stage) survivesRestarts(t *testing.T, g *harness.Process, id string) {
	for _, role := range []*process{s.proxy, s.admin} {
		role.kill(t)
		if status, body := health(t, g, id); status != 204 {
			t.Errorf("without the %s role: %d %s", role.name, status, body)
		}
		status, body := ask(t, http.MethodGet, g.URL+"/v2/sandboxes", "")
		if want := map[bool]int{true: 503, false: 200}[role == s.proxy]; status != want {
			t.Errorf("a list without the %s role: %d %s", role.name, status, body)
		}
		role.start(t)
		s.ready(t)
		eventually(t, "the list is back", func() bool {
			status, body := ask(t, http.MethodGet, g.URL+"/v2/sandboxes", "")
			return status == 200 && strings.Contains(body, id)
		})
	}

	s.redis.RestartJSON()
	eventually(t, "the gateway finds Redis again", func() bool {
		status, body := health(t, g, id)
		if status != 204 && status != 503 {
			t.Fatalf("while Redis is away: %d %s", status, body)
		}
		return status == 204
	})
	// ROCK's roles find it, too: the next sandbox is made, written down and reached.
	other := create(t, s.adminURL, keeps)
	eventually(t, "a sandbox made after that is reached", func() bool {
		status, _ := health(t, g, other)
		return status == 204
	})

	// The rocklet is killed in its container: nothing answers for the sandbox, which ROCK still calls running. A 502 would
	// say that it does not run.
	s.killInside(t, other)
	if status, body := health(t, g, other); status != 503 || strings.Contains(body, "was not found") {
		t.Errorf("its rocklet is dead: %d %s", status, body)
	}
	if status, body := health(t, g, id); status != 204 {
		t.Errorf("the neighbour of a dead rocklet: %d %s", status, body)
	}
	rock(t, http.MethodPost, s.adminURL+native+"/stop", `{"sandbox_id":"`+other+`"}`)
	rock(t, http.MethodPost, s.adminURL+native+"/sandboxes/"+other+"/restart", "")
	awaitRunning(t, s.adminURL, other)
	eventually(t, "it is reached in its next life", func() bool {
		status, _ := health(t, g, other)
		return status == 204
	})
	rock(t, http.MethodPost, s.adminURL+native+"/stop", `{"sandbox_id":"`+other+`"}`)
}

// killInside kills the rocklet of a sandbox, the first child of its container's first process. The container ends with it.
func (s *stage) killInside(t *testing.T, id string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, "docker", id, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(string(content))
	if err != nil {
		t.Fatal(err)
	}
	inside := descendants(first)
	if len(inside) == 0 {
		t.Fatal("nothing runs in the container")
	}
	if err := syscall.Kill(inside[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the container has ended", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "docker", id, "pid"))
		return os.IsNotExist(err)
	})
}

// pauses: by ROCK's stop, and back by ROCK's restart with the files that there were.
func (s *stage) pauses(t *testing.T, g *harness.Process, id string) {
	if status, body := ask(t, http.MethodPost, g.URL+"/sandboxes/"+id+"/pause", ""); status != 204 {
		t.Fatalf("pause: %d %s", status, body)
	}
	if status, body := health(t, g, id); status != 502 || !strings.Contains(body, "paused") {
		t.Errorf("paused: %d %s", status, body)
	}
	for _, again := range []string{id, "nobody"} { // as the double plays it
		rock(t, http.MethodPost, s.adminURL+native+"/stop", `{"sandbox_id":"`+again+`"}`)
	}
	// This ROCK has no call for a sandbox's time, so what connect does is less than E2B's, and it says so; but it restarts.
	status, body := ask(t, http.MethodPost, g.URL+"/sandboxes/"+id+"/connect", `{"timeout":60}`)
	t.Logf("connect: %d %s", status, body)
	if status != 501 || strings.Contains(body, "nothing was done") {
		t.Errorf("connect: %d %s", status, body)
	}
	awaitRunning(t, s.adminURL, id)
	eventually(t, "it is reached again", func() bool {
		status, _ := health(t, g, id)
		return status == 204
	})
}

// tellsDeleted: ROCK deletes a sandbox that it stops, unless it was told to keep it.
func (s *stage) tellsDeleted(t *testing.T, g *harness.Process) {
	id := create(t, s.adminURL, "")
	status, body := ask(t, http.MethodPost, g.URL+"/sandboxes/"+id+"/pause", "")
	if status != 404 {
		t.Errorf("a pause that has deleted the sandbox: %d %s", status, body)
	}
	status, body = health(t, g, id)
	if status != 502 || !strings.Contains(body, "was not found") {
		t.Errorf("deleted: %d %s", status, body)
	}
	if status, body := ask(t, http.MethodPost, g.URL+"/sandboxes/"+id+"/pause", ""); status != 404 {
		t.Errorf("a pause of the deleted one: %d %s", status, body)
	}
	// That says nothing of a sandbox that ROCK was told to keep.
	kept := create(t, s.adminURL, keeps)
	if status, body := ask(t, http.MethodPost, g.URL+"/sandboxes/"+kept+"/pause", ""); status != 204 {
		t.Errorf("the next pause: %d %s", status, body)
	}
}
