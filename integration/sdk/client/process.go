package client

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Program names a program and how to run it.
type Program struct {
	// Folder, relative to the checkout, holds py/<name>.py and js/programs/<name>.mjs.
	Folder, Name string
	// Args follow --api, which Python programs get first.
	Args []string
	// Limit ends a program that is not done by then, with everything it started.
	Limit time.Duration
	// Stdin is the program's input. Default: none.
	Stdin io.Reader
}

// Process is a started program.
type Process struct {
	// Out is what the program prints, line by line.
	Out *bufio.Scanner

	cmd    *exec.Cmd
	cancel context.CancelFunc
	stderr *tail
}

// Start runs a program with an SDK against a deployment. The test's end kills it at the latest.
func Start(t testing.TB, c Client, d Deployment, p Program) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.Limit)
	cmd := c.command(ctx, t, p)
	cmd.Env = d.environment()
	cmd.Stdin = p.Stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	started := &Process{cmd: cmd, cancel: cancel, stderr: &tail{limit: 8 << 10}}
	cmd.Stderr = started.stderr
	// An own pipe and not StdoutPipe: Wait closes that one, and with it the lines not yet read.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	cmd.Stdout = write
	started.Out = bufio.NewScanner(read)
	started.Out.Buffer(nil, 1<<20)
	err = startFromLastingThread(ctx, cmd)
	write.Close()
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	return started
}

// Wait waits for the program's end. The error is that of [exec.Cmd.Wait].
func (p *Process) Wait() error { return p.cmd.Wait() }

// Kill ends the program and everything it started.
func (p *Process) Kill() { p.cancel() }

// Stderr is the end of what the program said besides.
func (p *Process) Stderr() string { return p.stderr.String() }

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
