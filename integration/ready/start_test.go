package ready

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

const clients = 200

// statusQuestions is how often ROCK was asked for the status of a sandbox.
func (s *scene) statusQuestions(sandbox string) int {
	return len(s.rock.Log().Requests(rock.Match{Role: rock.Admin, Sandbox: sandbox, Path: "/apis/envs/sandbox/v1/get_status"}))
}

// all sends one call of each client, at once.
func (s *scene) all(t *testing.T, answered func(status int, body string)) {
	var calls sync.WaitGroup
	for range clients {
		calls.Go(func() {
			answered(s.do(t.Context(), "POST", "/filesystem.Filesystem/Stat", `{"path":"/"}`, "slow"))
		})
	}
	calls.Wait()
}

func TestASandboxThatTakesTwentySecondsToStartServesAllWhoUseItAtOnce(t *testing.T) {
	s := open(t, rock.Options{StartDelay: 20 * time.Second, LazyAlive: true}, "")
	begun := time.Now()
	created := s.create(t, "slow")
	var served atomic.Int32
	s.all(t, func(status int, body string) {
		if status != 200 || !strings.Contains(body, `"entry"`) {
			t.Errorf("%d %s", status, body)
			return
		}
		served.Add(1)
	})
	took := time.Since(begun)
	if status := <-created; status != 201 {
		t.Errorf("create: %d", status)
	}
	asked := s.statusQuestions("slow")
	t.Logf("%d of %d calls were served, the last %v after the create; ROCK was asked for the status %d times", served.Load(), clients, took.Round(time.Millisecond), asked)
	// One prober asks about once a second; two would ask 40 times.
	if asked < 10 || asked > 32 {
		t.Errorf("ROCK was asked for the status %d times", asked)
	}
}

func TestAFailedStartIsToldToAllWithinASecond(t *testing.T) {
	var failed atomic.Int64
	s := open(t, rock.Options{StartDelay: 4 * time.Second, FailStart: func(*rock.Sandbox) error {
		failed.Store(time.Now().UnixNano())
		return errors.New("no such image")
	}}, "")
	created := s.create(t, "slow")
	var last atomic.Int64
	s.all(t, func(status int, body string) {
		if status != 502 || !strings.Contains(body, `"unavailable"`) || !strings.Contains(body, "was not found running: it has failed to start") {
			t.Errorf("%d %s", status, body)
		}
		last.Store(time.Now().UnixNano())
	})
	took := time.Duration(last.Load() - failed.Load())
	t.Logf("the last of %d calls heard of it %v after ROCK knew", clients, took.Round(time.Millisecond))
	if failed.Load() == 0 || took > time.Second {
		t.Errorf("the last one heard of it after %v", took)
	}
	if status := <-created; status != 500 {
		t.Errorf("create: %d", status)
	}
	// Why is for the operator.
	if !strings.Contains(s.Logs(), "image_pull: failed: no such image") {
		t.Error("the log does not say why")
	}
}
