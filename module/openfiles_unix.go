//go:build unix

package module

import "golang.org/x/sys/unix"

// openFiles is how many files this process may have open, 0 when that is not
// known.
func openFiles() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) // signed on some systems
}
