package deploy

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// sdk is an SDK that runs a command which prints numbers.
type sdk struct {
	name   string
	t      *testing.T
	stdin  io.WriteCloser
	events chan event
	stderr strings.Builder
}

// event is a line of ticks.py or ticks.mjs.
type event struct {
	Event   string `json:"event"`
	Ticks   int    `json:"ticks"`
	Class   string `json:"class"`
	Message string `json:"message"`
}

const (
	python     = "py-e2b-2.34.0"
	javaScript = "js-e2b-2.51.0"
)

// startSDK starts an SDK against a gateway and returns when its command runs.
func startSDK(t *testing.T, install string, g *harness.Process) *sdk {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(root, ".cache", install)
	if _, err := os.Stat(filepath.Join(installed, ".installed-from")); err != nil {
		t.Fatalf("%s is not installed; run make deps: %v", install, err)
	}
	var cmd *exec.Cmd
	if install == python {
		cmd = exec.CommandContext(t.Context(), filepath.Join(installed, "bin", "python"), "ticks.py")
	} else {
		cmd = exec.CommandContext(t.Context(), "node", besideModules(t, installed))
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1",
		"E2B_API_URL=" + g.URL, "E2B_SANDBOX_URL=" + g.URL, "E2B_API_KEY=e2b_" + strings.Repeat("0a", 20),
		"E2B_TEMPLATE_ID=python:3.11", "SSL_CERT_FILE=" + g.CAFile, "NODE_EXTRA_CA_CERTS=" + g.CAFile,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	s := &sdk{name: install + " over " + string(g.Transport), t: t, events: make(chan event, 2)}
	cmd.Stderr = &s.stderr
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e = event{Event: "garbage", Message: lines.Text()}
			}
			s.events <- e
		}
		_ = cmd.Wait()
	}()
	if e := s.next(); e.Event != "ticking" {
		t.Fatalf("%s: %+v\n%s", s.name, e, s.stderr.String())
	}
	return s
}

// next is what the SDK says next. The SDK must be in a hurry no more than a
// busy machine is.
func (s *sdk) next() event {
	s.t.Helper()
	select {
	case e := <-s.events:
		return e
	case <-time.After(60 * time.Second):
		s.t.Fatalf("%s says nothing", s.name)
		return event{}
	}
}

// finish stops the command, which must end well.
func (s *sdk) finish() {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, "stop\n"); err != nil {
		s.t.Errorf("%s: %v", s.name, err)
	}
	if e := s.next(); e.Event != "end" || e.Ticks == 0 {
		s.t.Errorf("%s: %+v\n%s", s.name, e, s.stderr.String())
	}
}

// besideModules copies the JavaScript program to where its packages are found.
func besideModules(t *testing.T, installed string) string {
	t.Helper()
	text, err := os.ReadFile("ticks.mjs")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(installed, "run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "ticks.mjs")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
