//go:build realrock

package realrock

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// process is a program of the deployment that can be killed and run again, with the same words.
type process struct {
	name string
	argv []string
	env  []string
	dir  string // its log is there
	cmd  *exec.Cmd
}

// start runs the program.
func (p *process) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.env, p.dir, log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill ends it as a crash does.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

// adopt makes this process the parent of every orphan among its descendants, so that none of them can outlive it unseen:
// Ray's processes and the containers are not children of whom started them.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// endAll kills all descendants of this process.
func endAll() {
	for range 200 {
		left := descendants(os.Getpid())
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for { // those that were orphans
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil || pid <= 0 {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "processes are left:", descendants(os.Getpid()))
}

func descendants(of int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", of))
	for _, list := range lists {
		content, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil {
				all = append(append(all, pid), descendants(pid)...)
			}
		}
	}
	return all
}

// tail is the end of the logs, for a test that has failed.
func tail(dir string) string {
	var out strings.Builder
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, log := range logs {
		content, _ := os.ReadFile(log)
		lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
		lines = lines[max(0, len(lines)-15):]
		fmt.Fprintf(&out, "--- %s\n%s\n", filepath.Base(log), bytes.Join(lines, []byte("\n")))
	}
	return out.String()
}
