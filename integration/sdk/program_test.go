package sdk

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// line is one check as a program prints it.
type line struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// MS is how long the check took, in milliseconds.
	MS int64 `json:"ms"`
}

// program is a started SDK program.
type program struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	out    *bufio.Scanner
	stderr *tail
}

// start runs one program of a client against a deployment. A program that is not done within the limit is killed with
// everything it started.
func start(t testing.TB, c client, d Deployment, limit time.Duration, name string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	cmd := c.command(ctx, t, name, args...)
	cmd.Env = environment(d)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	p := &program{cmd: cmd, cancel: cancel, stderr: &tail{limit: 8 << 10}}
	cmd.Stderr = p.stderr
	// An own pipe and not StdoutPipe: Wait closes that one, and with it the lines not yet read.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	cmd.Stdout = write
	p.out = bufio.NewScanner(read)
	p.out.Buffer(nil, 1<<20)
	err = startFromLastingThread(ctx, cmd)
	write.Close()
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	return p
}

// startFromLastingThread starts cmd from an operating system thread that lasts until ctx ends. Pdeathsig, which keeps a
// killed test run from leaving programs behind, fires at the end of the thread that started the program.
func startFromLastingThread(ctx context.Context, cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- cmd.Start()
		<-ctx.Done()
	}()
	return <-started
}

// report reads the program to its end and makes a subtest of every check. Each of wanted must have been seen once: a
// program that leaves a check out fails like one whose check does not hold.
func (p *program) report(t *testing.T, wanted []string) {
	t.Helper()
	defer p.cancel()
	seen := map[string]int{}
	failed := false
	for p.out.Scan() {
		var l line
		decoder := json.NewDecoder(strings.NewReader(p.out.Text()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&l); err != nil || l.Check == "" {
			t.Errorf("the program printed something that is no check: %q", p.out.Text())
			continue
		}
		seen[l.Check]++
		failed = failed || !l.OK
		t.Run(l.Check, func(t *testing.T) {
			if !l.OK {
				t.Errorf("after %d ms: %s", l.MS, l.Detail)
			} else if l.Detail != "" {
				t.Logf("%d ms: %s", l.MS, l.Detail)
			}
		})
	}
	if err := p.out.Err(); err != nil {
		t.Errorf("reading the program's output: %v", err)
	}
	err := p.cmd.Wait()
	if err != nil && !failed || err == nil && failed {
		t.Errorf("exit (%v) and checks (failed: %v) do not agree", err, failed)
	}
	for _, check := range append(slices.Clone(wanted), "end") {
		if seen[check] != 1 {
			t.Errorf("check %q was reported %d times, want once", check, seen[check])
		}
	}
	if err != nil || t.Failed() {
		t.Logf("exit: %v, stderr: %s", err, p.stderr)
	}
}

// environment is what the program knows of the deployment, and of this machine no more than it needs: a proxy or CA
// variable of the caller must not decide a test.
func environment(d Deployment) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME"),
		"LANG=C.UTF-8",
		"PYTHONUNBUFFERED=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"E2B_API_URL=" + d.APIURL,
		"E2B_SANDBOX_URL=" + d.SandboxURL,
		"E2B_API_KEY=" + d.APIKey,
		"E2B_TEMPLATE_ID=" + d.TemplateID,
	}
	if d.CAFile != "" {
		env = append(env, "SSL_CERT_FILE="+d.CAFile, "NODE_EXTRA_CA_CERTS="+d.CAFile)
	}
	return env
}

// tail is a writer that keeps the last limit bytes.
type tail struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

var _ io.Writer = (*tail)(nil)

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, b...)
	if over := len(w.kept) - w.limit; over > 0 {
		w.kept = append(w.kept[:0], w.kept[over:]...)
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.kept)
}
