//go:build !linux

package upstream

import (
	"syscall"
	"time"
)

// userTimeout does nothing: only Linux has TCP_USER_TIMEOUT.
type userTimeout struct{ limit time.Duration }

func (*userTimeout) start(syscall.RawConn) {}
func (*userTimeout) stop(uintptr)          {}
func (*userTimeout) note()                 {}
func (*userTimeout) watch(syscall.RawConn) {}
