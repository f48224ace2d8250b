package harness

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

// Process is the real binary, cmd/e2b-gateway, in a process of its own.
type Process struct {
	Endpoint
	setting *setting
	program string
	cmd     *exec.Cmd
	stderr  *os.File
	exited  chan struct{} // closed when err is set
	err     error
}

// patience is how long the harness waits for a process to do something.
const patience = 30 * time.Second

// Binary builds the gateway, once for all tests of a process, and runs it with
// a Caddyfile until the test ends. It returns when the gateway listens. The
// environment is the test's own. When the test fails, the end of the log is
// shown.
func Binary(t testing.TB, caddyfile string, transport ...Transport) *Process {
	t.Helper()
	return Run(t, Build(t), caddyfile, transport...)
}

// Run is [Binary] for another Caddy than the gateway, such as one without this
// module: program is its path.
func Run(t testing.TB, program, caddyfile string, transport ...Transport) *Process {
	t.Helper()
	p := &Process{setting: newSetting(t, transport), program: program}
	p.setting.admin = loopback.FreeAddress(t)
	p.t = t
	var err error
	if p.stderr, err = os.Create(filepath.Join(p.setting.dir, "stderr")); err != nil {
		t.Fatal(err)
	}
	p.start(caddyfile)
	t.Cleanup(p.end)
	return p
}

// Replace runs another process, with the same addresses and maybe another
// Caddyfile, once the one before has ended. It returns when that listens.
func (p *Process) Replace(caddyfile string) {
	p.t.Helper()
	select {
	case <-p.exited:
	default:
		p.t.Fatal("the gateway has not ended, and two would share its addresses")
	}
	p.start(caddyfile)
}

// start runs the binary until it ends, and returns when it listens.
func (p *Process) start(caddyfile string) {
	p.t.Helper()
	config, exited := p.write(caddyfile), make(chan struct{})
	cmd := exec.Command(p.program, "run", "--config", config)
	cmd.Stdout, cmd.Stderr = p.stderr, p.stderr
	cmd.Dir = p.setting.dir
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd, p.exited = cmd, exited
	go func() {
		p.err = cmd.Wait()
		close(exited)
	}()
	p.waitReady()
}

// write adapts the Caddyfile with the binary and writes the config it runs.
func (p *Process) write(caddyfile string) (file string) {
	p.t.Helper()
	source := filepath.Join(p.setting.dir, "Caddyfile")
	if err := os.WriteFile(source, []byte(p.setting.fill(p.t, caddyfile)), 0o600); err != nil {
		p.t.Fatal(err)
	}
	adapted, err := p.command("adapt", "--config", source)
	if err != nil {
		p.t.Fatalf("adapting the Caddyfile: %v", err)
	}
	var config []byte
	config, p.Endpoint = p.setting.apply(p.t, adapted)
	file = filepath.Join(p.setting.dir, "config.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// command runs the binary to its end and returns what it printed.
func (p *Process) command(args ...string) ([]byte, error) {
	var stderr strings.Builder
	cmd := exec.Command(p.program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return out, nil
}

// Reload replaces the running config, as an operator does it.
func (p *Process) Reload(caddyfile string) {
	p.t.Helper()
	config := p.write(caddyfile)
	if _, err := p.command("reload", "--config", config, "--address", p.setting.admin, "--force"); err != nil {
		p.t.Fatalf("reloading the gateway: %v", err)
	}
	settle(p.t, p.addresses(), 1)
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Wait waits until the process has ended by itself or by a signal. The error
// is that of [exec.Cmd.Wait].
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AdminURL is the base URL of Caddy's admin endpoint.
func (p *Process) AdminURL() string { return "http://" + p.setting.admin }

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Logs is what the gateway has logged so far, one JSON object a line, with
// what it wrote to the terminal before its log was open.
func (p *Process) Logs() string {
	b, err := os.ReadFile(p.stderr.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b) + readLog(p.t, p.setting)
}

// waitReady polls, because a foreign process has no other way to tell.
func (p *Process) waitReady() {
	p.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for _, base := range p.urls {
		u, err := url.Parse(base)
		if err != nil {
			p.t.Fatal(err)
		}
		for {
			if c, err := net.Dial("tcp", u.Host); err == nil {
				c.Close()
				break
			}
			select {
			case <-p.exited:
				p.t.Fatalf("the gateway ended before it listened: %v\n%s", p.err, p.Logs())
			case <-deadline.C:
				p.t.Fatalf("the gateway does not listen on %s\n%s", u.Host, p.Logs())
			case <-poll.C:
			}
		}
	}
}

// end stops the process, politely first.
func (p *Process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	hurry := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	<-p.exited
	hurry.Stop()
	if p.t.Failed() {
		logs := p.Logs()
		const most = 8 << 10
		p.t.Logf("the end of the gateway's log:\n%s", logs[max(0, len(logs)-most):])
	}
	p.stderr.Close()
}
