package harness

import (
	"syscall"
	"testing"
)

// AllowFiles lets this process, and those that it starts from now on, have so many open
// files, or as many as the system allows if that is less. It returns how many.
func AllowFiles(t testing.TB, want int) (allowed int) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// Only some may raise the hard limit. The soft one is set in any case, so that
	// child processes inherit it.
	raised := syscall.Rlimit{Cur: uint64(want), Max: max(uint64(want), limit.Max)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
		raised = syscall.Rlimit{Cur: min(uint64(want), limit.Max), Max: limit.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
			t.Fatal(err)
		}
	}
	return int(raised.Cur)
}
