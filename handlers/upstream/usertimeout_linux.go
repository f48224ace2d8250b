package upstream

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout bounds how long a peer may leave what was sent to it
// unacknowledged or untaken (TCP_USER_TIMEOUT, RFC 5482). Keepalive probes do
// not help then: the kernel sends none while it repeats data, and repeats that
// for a quarter of an hour.
//
// The option is set only from a write until data comes back and nothing is
// unacknowledged. While it is set, the kernel does not count keepalive probes
// (tcp(7)), and would find a silent peer that is gone as late as one that does
// not read. A failure to set it is ignored: the kernel's own limits hold.
//
// Setting it and taking it away are three system calls for a request that is
// answered at once. So connections of the lean client do neither when they are
// used: they only note that something was written, and who watches them sees to
// the option every second. The kernel counts from when it first sent what is
// not acknowledged, not from when the option is set.
type userTimeout struct {
	limit time.Duration // not positive means never

	mu    sync.Mutex // guards the option
	set   atomic.Bool
	wrote atomic.Bool // since nothing was unacknowledged, for all that is known
}

// start sets the option, before something is written.
func (u *userTimeout) start(c syscall.RawConn) {
	if u.limit <= 0 || u.set.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_ = c.Control(func(fd uintptr) { setUserTimeout(fd, u.limit) })
	u.set.Store(true)
}

// stop takes the option away if all that was written is acknowledged. A write
// that begins at that very moment goes without.
func (u *userTimeout) stop(fd uintptr) {
	if !u.set.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if left, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err != nil || left > 0 {
		return
	}
	setUserTimeout(fd, 0)
	u.set.Store(false)
}

// note notes a write of a connection that is watched.
func (u *userTimeout) note() {
	if !u.wrote.Load() {
		u.wrote.Store(true)
	}
}

// watch sets the option if something is unacknowledged, and takes it away if not.
func (u *userTimeout) watch(c syscall.RawConn) {
	if u.limit <= 0 || !u.wrote.Swap(false) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_ = c.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		switch {
		case err == nil && left > 0:
			u.wrote.Store(true) // it is to be looked at again
			if !u.set.Swap(true) {
				setUserTimeout(fd, u.limit)
			}
		case u.set.Swap(false):
			setUserTimeout(fd, 0)
		}
	})
}

func setUserTimeout(fd uintptr, d time.Duration) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
