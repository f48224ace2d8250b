package run

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new pseudo-terminal. The master is non-blocking, so closing it interrupts a read.
func openTerminal(size Size) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("run: open terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("run: unlock terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("run: open terminal: %w", err)
	}
	if err = setSize(master, size); err != nil {
		_ = master.Close()
		_ = slave.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

func setSize(f *os.File, s Size) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ioctl error
	if err := raw.Control(func(fd uintptr) {
		ioctl = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	}); err != nil {
		return err
	}
	return ioctl
}
