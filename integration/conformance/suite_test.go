package conformance

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/loopback"
	"github.com/caddy-e2b/gateway/integration/redistest"
)

// rig is what all runs of a test share.
type rig struct {
	*testing.T
	stage
}

func newRig(t *testing.T) *rig {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t}
	r.Suite = filepath.Join(root, ".cache", "conformance")
	if _, err := os.Stat(r.program("connectconformance")); err != nil {
		t.Fatalf("the conformance suite is not installed (%v); `make deps` installs it", err)
	}
	r.Gateway, r.Redis, r.Logs = harness.Build(t), redistest.Start(t, redistest.Options{}).Addr, t.TempDir()
	r.CA, r.Cert, r.Key = harness.CertificateByAuthority(t)
	for range 3 * waysIn {
		r.Addresses = append(r.Addresses, loopback.FreeAddress(t))
	}
	return r
}

// outcome is how a run of the suite went: its cases, and what is wrong with those that failed.
type outcome struct {
	cases  map[string]bool
	failed map[string]string
	took   time.Duration
}

func (o outcome) passed() int { return len(o.cases) - len(o.failed) }

var (
	caseSent   = regexp.MustCompile(`(?m)^Sending request for (".*")\.\.\.$`)
	caseFailed = regexp.MustCompile(`(?m)^FAILED: (\S.*):\n((?:[ \t]+.*\n)*)`)
	summary    = regexp.MustCompile(`(?m)^Total cases: (\d+)\n(\d+) passed, (\d+) failed$`)
)

// run runs the suite: arguments are the runner's. The stage is nil where the suite's own programs are started.
func (r *rig) run(s *stage, arguments ...string) outcome {
	r.Helper()
	begun := time.Now()
	runner := exec.Command(r.program("connectconformance"), append([]string{"--vv"}, arguments...)...)
	if s != nil {
		text, err := json.Marshal(s)
		if err != nil {
			r.Fatal(err)
		}
		runner.Env = append(os.Environ(), stageVariable+"="+string(text))
	}
	// What it has started goes with it.
	runner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout, stderr bytes.Buffer
	runner.Stdout, runner.Stderr = &stdout, &stderr
	if err := runner.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = syscall.Kill(-runner.Process.Pid, syscall.SIGKILL) })
	err := runner.Wait()
	o := outcome{cases: map[string]bool{}, failed: map[string]string{}, took: time.Since(begun)}
	for _, m := range caseSent.FindAllStringSubmatch(stdout.String(), -1) {
		name, err := strconv.Unquote(m[1])
		if err != nil {
			r.Fatal(err)
		}
		o.cases[name] = true
	}
	for _, m := range caseFailed.FindAllStringSubmatch(stdout.String(), -1) {
		o.failed[m[1]] = strings.TrimSpace(m[2])
	}
	m := summary.FindStringSubmatch(stdout.String())
	if m == nil || m[1] != strconv.Itoa(len(o.cases)) || m[2] != strconv.Itoa(o.passed()) || m[3] != strconv.Itoa(len(o.failed)) {
		out := stdout.String()
		r.Fatalf("the runner (%v) has counted otherwise: %q, of %d cases %d failed\n%s\n%s", err, m, len(o.cases), len(o.failed), out[max(0, len(out)-4000):], stderr.String())
	}
	return o
}

// sorted are the names of cases.
func sorted[V any](cases map[string]V) []string { return slices.Sorted(maps.Keys(cases)) }
