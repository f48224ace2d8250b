// Package run is the room where a sandbox of the ROCK double touches the operating system: it starts commands below one
// temporary root and translates sandbox paths to host paths. It knows processes, terminals and paths, and nothing of HTTP, Connect,
// registries or E2B. It is part of the test double and must never be linked into the production binary.
//
// How much of the host a command can see depends on what the machine permits; see [Isolation]. In the two isolated modes an absolute path
// means the same file to a command and to the file API, system directories (/usr, /etc, ...) are the host's and read-only, and
// everything else lives below the root. The fallback [None] has a limit that callers must know: a command's working directory and HOME are
// below the root, but an absolute path written inside the command is the host's.
package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Isolation names what separates the commands of a [Box] from the host.
type Isolation string

const (
	// Namespace: commands run chrooted in a private mount namespace that one locked thread of this process holds. Needs root
	// (CAP_SYS_ADMIN and CAP_SYS_CHROOT). The file API sees the system directories too.
	Namespace Isolation = "namespace"
	// UserNamespace: each command builds the same mounts in its own user and mount namespace. Needs no privilege, only a kernel
	// that allows unprivileged user namespaces, and sh, mount and chroot on the host. Commands see themselves as uid 0. The file API
	// sees only what is below the root, so system directories look empty to it.
	UserNamespace Isolation = "user-namespace"
	// None: only the working directory, HOME and TMPDIR are below the root.
	None Isolation = "none"
)

// Home is the sandbox path of the home directory that relative paths and "~" resolve to.
const Home = "/home/user"

// ErrClosed is returned by Start after Close.
var ErrClosed = errors.New("run: box is closed")

// Options configure [Open].
type Options struct {
	// Root is the host directory that becomes "/" of the sandbox. It is created when missing. Required, absolute.
	Root string
	// Env is the sandbox-level environment, under the environment of each command.
	Env map[string]string
	// Isolation forces one mode; Open fails when the machine does not permit it. Default: the strongest that works.
	Isolation Isolation
}

// Box is one sandbox root with the commands that run below it. All methods are safe for concurrent use.
type Box struct {
	root      string // real directory
	base      string // prefix that turns a resolved sandbox path into a host path
	env       map[string]string
	isolation Isolation

	work chan func()   // executed on the holder thread
	quit chan struct{} // closed by Close
	held chan struct{} // closed when the holder thread has ended

	mu        sync.Mutex
	closed    bool
	processes map[*Process]struct{}
}

// Open prepares the root (home directory, /tmp, links to system directories) and the isolation.
func Open(o Options) (*Box, error) {
	if !filepath.IsAbs(o.Root) {
		return nil, fmt.Errorf("run: root %q is not absolute", o.Root)
	}
	root := filepath.Clean(o.Root)
	if root == "/" {
		return nil, errors.New("run: the host's root cannot be a sandbox root")
	}
	if err := furnish(root); err != nil {
		return nil, fmt.Errorf("run: prepare root: %w", err)
	}
	modes := []Isolation{Namespace, UserNamespace, None}
	if o.Isolation != "" {
		modes = []Isolation{o.Isolation}
	}
	var errs error
	for _, mode := range modes {
		b, err := open(root, mode, o.Env)
		if err == nil {
			return b, nil
		}
		errs = errors.Join(errs, fmt.Errorf("run: isolation %s: %w", mode, err))
	}
	return nil, errs
}

func open(root string, mode Isolation, env map[string]string) (*Box, error) {
	b := &Box{
		root: root, base: root, env: env, isolation: mode,
		work: make(chan func()), quit: make(chan struct{}), held: make(chan struct{}),
		processes: make(map[*Process]struct{}),
	}
	switch mode {
	case Namespace, None:
	case UserNamespace:
		if err := probeUserNamespace(root); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown mode %q", mode)
	}
	ready := make(chan error, 1)
	go b.hold(ready)
	if err := <-ready; err != nil {
		<-b.held
		return nil, err
	}
	return b, nil
}

// hold owns one operating-system thread for the life of the box. Commands are forked from it, so they inherit its root and mount
// namespace, and the kernel kills them (parent-death signal) when the thread ends, even if this process is killed.
func (b *Box) hold(ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	if unix.Gettid() == os.Getpid() {
		// The main thread cannot end before the process does, and /proc/self describes it: use another one.
		locked := make(chan error)
		go b.hold(locked)
		err := <-locked
		runtime.UnlockOSThread()
		ready <- err
		return
	}
	defer close(b.held)
	if b.isolation == Namespace {
		if err := enterNamespace(b.root); err != nil {
			ready <- err
			return
		}
		b.base = fmt.Sprintf("/proc/%d/task/%d/root", os.Getpid(), unix.Gettid())
	}
	ready <- nil
	for {
		select {
		case f := <-b.work:
			f()
		case <-b.quit:
			return
		}
	}
}

// Root is the host directory given to Open.
func (b *Box) Root() string { return b.root }

// Isolation tells which mode Open chose.
func (b *Box) Isolation() Isolation { return b.isolation }

// Processes returns the commands that have not ended yet, in no order.
func (b *Box) Processes() []*Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	ps := make([]*Process, 0, len(b.processes))
	for p := range b.processes {
		ps = append(ps, p)
	}
	return ps
}

// KillAll sends SIGKILL to every command's process group and then to whatever else belongs to this sandbox: children that outlived their
// command, and commands that made a group of their own.
func (b *Box) KillAll() {
	for _, p := range b.Processes() {
		_ = p.Kill()
	}
	b.killStragglers()
}

// Close kills all commands, waits until they are reaped and gives the namespace back. The files stay; see [Remove].
func (b *Box) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	b.KillAll()
	for _, p := range b.Processes() {
		<-p.Done()
	}
	close(b.quit)
	<-b.held
	return nil
}
