package incidents

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// silence makes the machine of a sandbox say nothing, at one of its ports: it takes as many
// connections as have room while nobody accepts them, and drops the packets of all others.
func (w *world) silence(s sandbox, port int) {
	w.t.Helper()
	l, err := w.rock.Sandbox(s.id).Listen(port)
	if err != nil {
		w.t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		w.t.Fatal(err)
	}
	withoutRoom(w.t, address.Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", address.String(), 200*time.Millisecond)
		if err != nil {
			return
		}
		w.t.Cleanup(func() { c.Close() })
	}
	w.t.Fatal("the port goes on to take connections")
}

// withoutRoom listens on a loopback port, with room for no more than the system insists on.
func withoutRoom(t *testing.T, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	// The sandbox goes on to hold the port.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
}
