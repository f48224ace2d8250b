package rock

import (
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// heldPort is a port of the host that belongs to a sandbox whether or not something listens behind it. Until it does, connections are
// refused.
type heldPort struct {
	fd      int
	address string
	port    int
}

// holdPort takes a free loopback port: a socket that is bound and never listens keeps it. Go's listeners set SO_REUSEADDR too, so they can
// share it.
func holdPort() (h heldPort, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return h, fmt.Errorf("rock: publish a port: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return h, fmt.Errorf("rock: publish a port: %w", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return h, fmt.Errorf("rock: publish a port: %w", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return h, fmt.Errorf("rock: publish a port: %w", err)
	}
	port := name.(*unix.SockaddrInet4).Port
	return heldPort{fd, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), port}, nil
}

func (h heldPort) release() { _ = unix.Close(h.fd) }

// openDoors opens the rocklet and takes the published ports, and puts them into ports. endContainer closes them.
func (s *Sandbox) openDoors(ports map[int]int) error {
	c := s.cluster
	for _, port := range c.opt.Published {
		held, err := holdPort()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.held[port] = held
		s.mu.Unlock()
		s.OnStop(held.release)
		ports[port] = held.port
	}
	if !c.opt.Rocklet {
		return nil
	}
	srv, err := c.serve(Rocklet, "", s, s.rocklet())
	if err != nil {
		return err
	}
	s.OnStop(func() {
		srv.ResetAll()
		_ = srv.Close()
	})
	ports[22555] = srv.port()
	return nil
}
