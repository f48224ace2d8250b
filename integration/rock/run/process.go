package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command says what to start. The zero value runs /bin/bash without arguments.
type Command struct {
	// Path of the program, a sandbox path or a bare name looked up in the system directories. Default: /bin/bash.
	Path string
	// Args without the program's own name, such as "-l", "-c", "echo hi".
	Args []string
	// Env goes over the sandbox-level environment.
	Env map[string]string
	// Dir is the working directory, a sandbox path. Default: Home.
	Dir string
	// Stdin true gives the command a pipe (Process.Stdin); otherwise it reads /dev/null.
	Stdin bool
	// Terminal runs the command on a new pseudo-terminal of this size instead of pipes.
	Terminal *Size
}

// Size of a terminal in character cells.
type Size struct{ Cols, Rows uint16 }

// DirError says that the working directory is missing or not a directory. Dir is a sandbox path.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string { return fmt.Sprintf("working directory %s: %v", e.Dir, e.Err) }
func (e *DirError) Unwrap() error { return e.Err }

// Exit is how a command ended.
type Exit struct {
	// Code is the exit status, or -1 when a signal ended it.
	Code int
	// Signal that ended it, or 0.
	Signal syscall.Signal
}

// String is "exit status 3" or "signal: killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Process is a started command, leader of its own process group (of its own session on a terminal).
type Process struct {
	cmd      *exec.Cmd
	stdin    *os.File
	stdout   *os.File
	stderr   *os.File
	terminal *os.File
	done     chan struct{}
	exit     Exit
	closing  sync.Once
}

// Start runs c. Errors: *DirError, ErrClosed, or the *os.PathError of a program that cannot be executed.
func (b *Box) Start(c Command) (*Process, error) {
	if c.Path == "" {
		c.Path = "/bin/bash"
	}
	if c.Dir == "" {
		c.Dir = Home
	}
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed { // the paths below may be gone already
		return nil, ErrClosed
	}
	dir, err := b.directory(c.Dir)
	if err != nil {
		return nil, err
	}
	p := &Process{done: make(chan struct{})}
	var given []*os.File // the child's ends
	defer func() {
		for _, f := range given {
			_ = f.Close()
		}
	}()
	cmd := &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: b.environ(c.Env)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if given, err = p.wire(cmd, c); err != nil {
		p.Close()
		return nil, err
	}
	switch b.isolation {
	case Namespace:
		cmd.Dir = dir.Sandbox
	case UserNamespace:
		err = inUserNamespace(cmd, b.root, dir.Sandbox)
	default:
		cmd.Dir = dir.Host
	}
	if err == nil {
		err = b.launch(cmd, p)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// directory resolves a working directory and proves that it is one.
func (b *Box) directory(dir string) (Location, error) {
	at, err := b.Resolve(dir)
	if err == nil {
		var fi os.FileInfo
		if fi, err = os.Stat(at.Host); err == nil && !fi.IsDir() {
			err = syscall.ENOTDIR
		}
	}
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // its Path is the host's
		}
		return Location{}, &DirError{Dir: Abs(dir), Err: err}
	}
	return at, nil
}

// wire connects the standard streams and returns the files to close here once the child has them.
func (p *Process) wire(cmd *exec.Cmd, c Command) ([]*os.File, error) {
	if c.Terminal != nil {
		cmd.SysProcAttr.Setsid = true
		cmd.SysProcAttr.Setctty = true
		master, slave, err := openTerminal(*c.Terminal)
		if err != nil {
			return nil, err
		}
		p.terminal = master
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		return []*os.File{slave}, nil
	}
	cmd.SysProcAttr.Setpgid = true
	var given []*os.File
	pipe := func(keep **os.File, give *io.Writer) error {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		*keep, *give = r, w
		given = append(given, w)
		return nil
	}
	if err := pipe(&p.stdout, &cmd.Stdout); err != nil {
		return given, err
	}
	if err := pipe(&p.stderr, &cmd.Stderr); err != nil {
		return given, err
	}
	if c.Stdin {
		r, w, err := os.Pipe()
		if err != nil {
			return given, err
		}
		p.stdin, cmd.Stdin = w, r
		given = append(given, r)
	}
	return given, nil
}

// launch forks on the holder thread and starts the goroutine that reaps the command.
func (b *Box) launch(cmd *exec.Cmd, p *Process) error {
	started := make(chan error, 1)
	fork := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.closed {
			started <- ErrClosed
			return
		}
		if len(cmd.Path) > 0 && cmd.Path[0] != '/' {
			if path, err := lookTool(cmd.Path); err == nil { // here, because this thread sees the sandbox's root
				cmd.Path = path
			}
		}
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.cmd = cmd
		b.processes[p] = struct{}{}
		started <- nil
	}
	select {
	case b.work <- fork:
	case <-b.quit:
		return ErrClosed
	}
	if err := <-started; err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // streams are *os.File, so this waits for the process only
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			p.exit = Exit{Code: -1, Signal: ws.Signal()}
		} else {
			p.exit = Exit{Code: cmd.ProcessState.ExitCode()}
		}
		b.mu.Lock()
		delete(b.processes, p)
		b.mu.Unlock()
		close(p.done)
	}()
	return nil
}

// environ never inherits this process's environment: tests must not depend on it, and it may hold secrets.
func (b *Box) environ(over map[string]string) []string {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": Home, "SHELL": "/bin/bash", "LANG": "C.UTF-8",
	}
	if b.isolation == None {
		env["HOME"], env["TMPDIR"] = b.root+Home, b.root+"/tmp"
	}
	for _, m := range []map[string]string{b.env, over} {
		for k, v := range m {
			env[k] = v
		}
	}
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return list
}

// Pid is the process id on the host, which is also what the command sees as $$.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Stdin is the command's input, nil unless Command.Stdin was set. Close it to give the command end of file.
func (p *Process) Stdin() *os.File { return p.stdin }

// Stdout and Stderr are read by the caller until io.EOF, which comes when the last process holding them is gone; a command that leaves a
// background child behind keeps them open after Done. Nil on a terminal.
func (p *Process) Stdout() *os.File { return p.stdout }

// Stderr: see Stdout.
func (p *Process) Stderr() *os.File { return p.stderr }

// Terminal is the master side, nil without Command.Terminal. Reading it fails with EIO, not io.EOF, once the last process has left.
func (p *Process) Terminal() *os.File { return p.terminal }

// Resize changes the terminal's size; the command gets SIGWINCH.
func (p *Process) Resize(s Size) error {
	if p.terminal == nil {
		return errors.New("run: command has no terminal")
	}
	return setSize(p.terminal, s)
}

// Done is closed when the command has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until Done and tells how the command ended.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Signal reaches the command itself, not its children. os.ErrProcessDone after it ended.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill sends SIGKILL to the whole process group, also after the leader has ended.
func (p *Process) Kill() error {
	err := unix.Kill(-p.Pid(), unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// Close releases this side of the streams; reads that are blocked return os.ErrClosed. It does not kill the command.
func (p *Process) Close() {
	p.closing.Do(func() {
		for _, f := range []*os.File{p.stdin, p.stdout, p.stderr, p.terminal} {
			if f != nil {
				_ = f.Close()
			}
		}
	})
}
