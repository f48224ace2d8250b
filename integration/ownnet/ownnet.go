// Package ownnet runs the tests of a package in a network namespace of their own, whose settings are theirs: rules that drop packets,
// and what the README advises for reloads. Root may make one, and so may everybody where the kernel lets them have a user namespace.
package ownnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside is set in the process that has a network namespace of its own.
const inside = "E2B_TESTS_OWN_NETWORK"

// ErrNotAllowed is that of a kernel that lets this user have none.
var ErrNotAllowed = errors.New("no network namespace of our own")

// Run is [testing.M.Run] in a namespace in which loopback is up, reloads cost nobody a connection ([Migrates]) and setup has been called,
// which may be nil. Nothing has run when the error is ErrNotAllowed.
func Run(m *testing.M, setup func() error) (code int, err error) {
	if os.Getenv(inside) == "" {
		return enter()
	}
	err = errors.Join(RaiseLoopback(), os.WriteFile(migrateReq, []byte("1"), 0))
	if err == nil && setup != nil {
		err = setup()
	}
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// enter runs the same again in a namespace, and returns its status.
func enter() (int, error) {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return 1, fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// RaiseLoopback brings up the loopback interface, which is down in a new network.
func RaiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

const migrateReq = "/proc/sys/net/ipv4/tcp_migrate_req"

// Migrates reports a kernel that hands connections which are being opened from a listener that closes to the one that takes its place.
// Without it (net.ipv4.tcp_migrate_req, see "Reloads" in the README) Caddy resets those, and a client of them has no answer.
func Migrates() bool {
	b, err := os.ReadFile(migrateReq)
	return err == nil && strings.TrimSpace(string(b)) == "1"
}
