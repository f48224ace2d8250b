package loopback

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// FreeAddress is a loopback address that nobody listens on at the moment, and that nobody else is given until t has ended:
// Caddy shares its ports (SO_REUSEPORT), as HAProxy does, so that two on one would each get half of the other's connections.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		claimed := claim(t, address)
		l.Close()
		if claimed {
			return address
		}
	}
}

// claim keeps an address for a test by a lock on a file, which ends with the process at the latest.
func claim(t testing.TB, address string) bool {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "e2b-gateway-test-addresses")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, address), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return false
	}
	t.Cleanup(func() { f.Close() })
	return true
}
