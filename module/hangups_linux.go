package module

import (
	"net"
	"os"
	"sync"
	"syscall"
)

// hangups tell connections that their clients have sent their last byte or have
// reset them. It is an epoll instance that Go's own poller waits for, so it takes
// no thread, and one goroutine for all connections.
type hangups struct {
	fd    int // -1 where there is none
	ready syscall.RawConn

	mu    sync.Mutex
	conns map[uint64]*clientConn
	last  uint64
}

// watching are those of the process.
var watching = sync.OnceValue(func() *hangups {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return &hangups{fd: -1}
	}
	var ready syscall.RawConn
	if err = syscall.SetNonblock(fd, true); err == nil {
		ready, err = os.NewFile(uintptr(fd), "epoll").SyscallConn()
	}
	if err != nil {
		return &hangups{fd: -1}
	}
	h := &hangups{fd: fd, ready: ready, conns: map[uint64]*clientConn{}}
	go h.run()
	return h
})

// edge is EPOLLET, which package syscall has with another sign on some processors.
const edge = 1 << 31

// add watches a connection until it is closed, and returns its number; 0 when the
// kernel takes no more.
func (h *hangups) add(c *clientConn) uint64 {
	raw, err := c.SyscallConn()
	if err != nil || h.fd < 0 {
		return 0
	}
	h.mu.Lock()
	h.last++
	id := h.last
	h.conns[id] = c
	h.mu.Unlock()
	// Resets and errors are told without being asked for.
	event := syscall.EpollEvent{Events: syscall.EPOLLRDHUP | edge, Fd: int32(id), Pad: int32(id >> 32)}
	var refused error
	if err = raw.Control(func(fd uintptr) { refused = syscall.EpollCtl(h.fd, syscall.EPOLL_CTL_ADD, int(fd), &event) }); err != nil || refused != nil {
		h.remove(id)
		return 0
	}
	return id
}

// remove forgets a connection, which the kernel does by itself when it is closed.
func (h *hangups) remove(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, id)
}

func (h *hangups) run() {
	var events [64]syscall.EpollEvent
	for {
		n := 0
		err := h.ready.Read(func(fd uintptr) bool {
			n, _ = syscall.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		if err != nil {
			return // only if the instance were closed, which nobody does
		}
		for _, e := range events[:n] {
			h.mu.Lock()
			c := h.conns[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]
			h.mu.Unlock()
			if c != nil {
				c.hungUp()
			}
		}
	}
}

// nothingMore reports whether all has been read that will ever come.
func nothingMore(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	over := false
	err = raw.Control(func(fd uintptr) {
		var next [1]byte
		n, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		over = n <= 0 && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return err == nil && over
}
