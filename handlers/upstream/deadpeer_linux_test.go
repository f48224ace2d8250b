package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vanish lets the kernel drop whatever arrives for a connection before TCP sees
// it: to the peer its machine is gone, without a FIN or RST.
func vanish(t *testing.T, c net.Conn) {
	t.Helper()
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	program := unix.SockFprog{Len: 1, Filter: &drop}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if ctlErr := raw.Control(func(fd uintptr) {
		_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			uintptr(unsafe.Pointer(&program)), unsafe.Sizeof(program), 0)
		if errno != 0 {
			err = errno
		}
	}); ctlErr != nil || err != nil {
		t.Fatal(ctlErr, err)
	}
}

// vanishing is a server that answers the head of a request with the head of an
// endless answer and then is gone.
func vanishing(t *testing.T) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan net.Conn, 1)
	t.Cleanup(func() {
		l.Close()
		if c := <-gone; c != nil {
			c.Close()
		}
	})
	go func() {
		c, err := l.Accept()
		if err != nil {
			gone <- nil
			return
		}
		if _, err := http.ReadRequest(bufio.NewReaderSize(c, 1)); err != nil {
			t.Error(err)
		}
		vanish(t, c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		gone <- c
	}()
	return l.Addr().String()
}

// The death of a machine sends nothing.
func TestAMachineThatIsGoneIsFoundOut(t *testing.T) {
	t.Parallel()
	const interval = time.Second // the kernel's smallest
	for name, body := range map[string]io.Reader{
		"while it is silent":                            nil,
		"while it acknowledges nothing of what is sent": endless{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := New(Config{KeepAlive: interval})
			defer tr.CloseIdle()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://placeholder/x", body)
			if err != nil {
				t.Fatal(err)
			}
			req.URL = &url.URL{Scheme: "http", Host: Host("l", vanishing(t)), Opaque: "/x"}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			began := time.Now()
			_, err = io.ReadAll(resp.Body)
			if d := time.Since(began); err == nil || d < interval || d > 15*interval {
				t.Errorf("ended after %v with %v", d, err)
			}
		})
	}
}

// endless is a request body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("y"), min(len(p), 1024))), nil
}
