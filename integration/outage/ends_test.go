package outage

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// A sandbox that ends elsewhere, through another gateway or ROCK's own API,
// leaves its streams open here.
func TestAStreamEndsSoonAfterItsRecord(t *testing.T) {
	s := open(t, options{cache: "ttl 1m"})
	s.create(t, "busy")
	message := envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 30"]}}`))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/process.Process/Start", bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/connect+json"}, "Connect-Protocol-Version": {"1"}, "Connect-Timeout-Ms": {"60000"},
		"E2b-Sandbox-Id": {"busy"}, "E2b-Sandbox-Port": {"49983"},
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, envelope.PrefixSize)); err != nil {
		t.Fatal(err)
	}
	s.rock.Faults().Add(rock.Fault{Match: rock.Match{Role: rock.Admin, Sandbox: "busy"}, Kind: rock.AnswerWith, At: rock.BeforeHandler, Answer: rock.Answer{
		Status: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"code":404,"message":"not found"}`}})
	begun := time.Now()
	s.redis.Do("DEL", "alive:busy")
	rest, err := io.ReadAll(resp.Body)
	took := time.Since(begun)
	if err != nil || !strings.Contains(string(rest), `{"error":{"code":"unavailable","message":"The sandbox busy was not found`) {
		t.Errorf("%q, %v", rest, err)
	}
	if took > 2*time.Second {
		t.Errorf("the stream went on for %v", took)
	}
}

// ROCK evicts the records of all sandboxes that it stops, so Redis alone cannot
// tell them apart. Neither the first call afterwards nor a later one is told
// something else than what became of it.
func TestAStoppedSandboxIsToldFromAKilledOne(t *testing.T) {
	s := open(t, options{})
	for name, tc := range map[string]struct {
		end          func()
		status       int
		text, health string
	}{
		"paused": {func() {
			if status, answer := s.do(t.Context(), "POST", "/sandboxes/paused/pause", `{"force":true}`, ""); status != 200 || answer != `{"forced":false}` {
				t.Fatalf("%d %s", status, answer)
			}
		}, 400, `{"code":"failed_precondition","message":"The sandbox paused is paused`, "it is paused"},
		"killed": {func() {
			if status, answer := s.do(t.Context(), "DELETE", "/sandboxes/killed", "", ""); status != 204 {
				t.Fatalf("%d %s", status, answer)
			}
		}, 502, "The sandbox killed was not found: it was killed", "was not found"},
		"killed elsewhere": {func() {
			s.rock.Sandbox("killed-elsewhere").Stop(rock.Deleted)
		}, 502, "The sandbox killed-elsewhere was not found", "was not found"},
		"expired": {func() {
			s.later.Store(0)
			s.rock.Scan()
		}, 502, "The sandbox expired was not found: its time ran out", "was not found"},
		"paused elsewhere": {func() {
			s.rock.Sandbox("paused-elsewhere").Stop(rock.Stopped)
		}, 400, "The sandbox paused-elsewhere is paused", "it is paused"},
	} {
		id := strings.ReplaceAll(name, " ", "-")
		if name == "expired" {
			s.later.Store(int64(-time.Hour)) // it was created an hour ago
		}
		s.create(t, id)
		s.wantHealth(t, id, 204, "")
		tc.end()
		for range 2 {
			s.wantHealth(t, id, 502, tc.health)
			if status, answer := s.do(t.Context(), "POST", "/filesystem.Filesystem/Stat", `{"path":"/"}`, id); status != tc.status || !strings.Contains(answer, tc.text) {
				t.Errorf("%s: %d %s", name, status, answer)
			}
		}
	}
}

// wantHealth waits for an answer of /health: a change from elsewhere is pushed
// by Redis, which takes a moment.
func (s *scene) wantHealth(t *testing.T, sandbox string, status int, text string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		got, answer := s.health(t.Context(), sandbox)
		if got == status && strings.Contains(answer, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: health is %d %s", sandbox, got, answer)
		}
	}
}
