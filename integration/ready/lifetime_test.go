package ready

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// endIn makes the end of a sandbox that of one that was last used a minute ago.
func (s *scene) endIn(id string, d time.Duration) {
	s.redis.Do("SET", "timeout:"+id, fmt.Sprintf(`{"auto_clear_time":"1","expire_time":"%d"}`, time.Now().Add(d).Unix()))
}

// A real Redis, and ROCK's own scan. Field report D04.
func TestASandboxInUseOutlivesItsTimeoutAndAnIdleOneDoesNot(t *testing.T) {
	s := open(t, rock.Options{ScanInterval: 500 * time.Millisecond}, "activity 1s")
	for _, id := range []string{"used", "idle"} {
		if status := <-s.create(t, id); status != http.StatusCreated {
			t.Fatalf("create: %d", status)
		}
	}
	message := envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 12; echo survived"]}}`))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/process.Process/Start", bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/connect+json"}, "Connect-Protocol-Version": {"1"}, "Connect-Timeout-Ms": {"60000"},
		"Keepalive-Ping-Interval": {"1"}, "E2b-Sandbox-Id": {"used"}, "E2b-Sandbox-Port": {"49983"},
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, envelope.PrefixSize)); err != nil {
		t.Fatal(err)
	}
	s.endIn("used", 5*time.Second)
	s.endIn("idle", 5*time.Second)
	// Looking at a sandbox is no use of it.
	s.await(t, "the idle one does not end", func() bool {
		s.do(t.Context(), "GET", "/sandboxes/idle", "", "")
		s.do(t.Context(), "GET", "/health", "", "idle")
		return s.rock.Sandbox("idle").State() == rock.Stopped
	})
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), `"exitCode":0`) || !strings.HasSuffix(string(rest), "{}") {
		t.Errorf("%q, %v", rest, err)
	}
	used := s.rock.Sandbox("used")
	if left := time.Until(used.Expires()); used.State() != rock.Running || left < 40*time.Second || left > time.Minute {
		t.Errorf("the used one is %s, and ends in %v", used.State(), left)
	}
}

var realTime = flag.Bool("real", false, "run a command of ten minutes under a timeout of two, which takes ten minutes")

// ROCK's intervals and defaults, and the Python SDK's. Without -real the command is a
// short one, and shows no more than that the program works.
func TestACommandOfTenMinutesSurvivesATimeoutOfTwoInRealTime(t *testing.T) {
	seconds := 12
	if *realTime {
		seconds = 600
	}
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, rock.Options{Envd: envd.In[*rock.Sandbox]}, "")
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, ".cache", "py-e2b-2.34.0", "bin", "python"), "lasting.py")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1",
		"E2B_API_URL=" + s.URL, "E2B_SANDBOX_URL=" + s.URL, "E2B_API_KEY=e2b_" + strings.Repeat("0a", 20),
		"E2B_TEMPLATE_ID=base", fmt.Sprintf("SECONDS=%d", seconds),
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var told struct {
		Stdout   string
		ExitCode int `json:"exit_code"`
		Seconds  int
		Running  bool
	}
	if err := json.Unmarshal(out, &told); err != nil || told.Stdout != "survived\n" || told.ExitCode != 0 || !told.Running || told.Seconds < seconds {
		t.Errorf("%s %v", out, err)
	}
	t.Logf("%s", out)
}
