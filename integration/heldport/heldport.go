// Package heldport keeps ports of 127.0.0.1 for somebody who does not listen there all the time. It knows no tests and nothing of the
// project: tests take their addresses from it (integration/loopback), and so does the double of ROCK, which the demo runs.
package heldport

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Port is a port that nobody else is given by the kernel until Close. Connections to it are refused unless somebody listens there, which
// who says SO_REUSEADDR first may do, as Go's listeners and nearly all others say. Close does nothing to who listens.
type Port struct {
	Address string // "127.0.0.1:port"
	Number  int

	socket *os.File // bound, and never listening
}

// Close gives the port back. A second time it does nothing.
func (p *Port) Close() { _ = p.socket.Close() }

// Take keeps a port: a free one (0), or the one with the number, which others may keep as well. It fails while somebody listens there.
func Take(number int) (p *Port, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keep a port: %w", os.NewSyscallError("socket", err))
	}
	f := os.NewFile(uintptr(fd), "port")
	defer func() {
		if err != nil {
			_ = f.Close()
			err = fmt.Errorf("keep port %d: %w", number, err)
		}
	}()
	// Of two that say it before they have a port, the kernel may give both the same: one that is bound and does not listen is in nobody's
	// way who says so, too. Who names the port says it first, or would be refused.
	shared := func() error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	}
	if number != 0 {
		if err = shared(); err != nil {
			return nil, err
		}
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err = shared(); err != nil {
		return nil, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	number = name.(*unix.SockaddrInet4).Port
	return &Port{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(number)), Number: number, socket: f}, nil
}
