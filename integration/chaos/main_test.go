package chaos

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// inside is set in the process that has a network namespace of its own.
const inside = "E2B_CHAOS_INSIDE"

// TestMain runs the suite in a network namespace of its own when a plan needs one. Root may make one, and so may everybody where the
// kernel lets them have a user namespace.
func TestMain(m *testing.M) {
	flag.Parse()
	// Where Debian has nft and ip, which the PATH of an ordinary user leaves out. install.sh looks there, too.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		panic(err)
	}
	// Worlds wait most of the time: all of them at once are no more than two cores can do.
	if err := flag.Set("test.parallel", strconv.Itoa(len(kinds))); err != nil {
		panic(err)
	}
	if !slices.ContainsFunc(slices.Collect(flatten(plans())), func(p plan) bool { return inTheDark(p.kind) }) {
		os.Exit(m.Run())
	}
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	for _, args := range [][]string{{"ip", "link", "set", "lo", "up"}, {"nft", rules}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v: %s\n`make chaos` installs what is needed\n", args[0], err, out)
			os.Exit(1)
		}
	}
	// What the README advises is taken at its word: with it no reload costs anybody an answer.
	if err := os.WriteFile(migrateReq, []byte("1"), 0); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enter runs the same again in a namespace, and returns its status.
func enter() int {
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
		fmt.Fprintf(os.Stderr, "no network namespace: %v\n", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
