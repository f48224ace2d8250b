//go:build !linux

package upstream

import "time"

// setUserTimeout does nothing: only Linux has TCP_USER_TIMEOUT.
func setUserTimeout(uintptr, time.Duration) error { return nil }
