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
type userTimeout struct {
	limit time.Duration // not positive means never

	mu  sync.Mutex // guards the option
	set atomic.Bool
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

func setUserTimeout(fd uintptr, d time.Duration) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
