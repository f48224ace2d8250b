package upstream

import (
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long sent data may go unacknowledged
// (TCP_USER_TIMEOUT, RFC 5482). Keepalive probes do not help then: the kernel
// sends none while it repeats data, and repeats that for a quarter of an hour.
func setUserTimeout(fd uintptr, d time.Duration) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
