package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
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
	for name, c := range map[string]struct {
		body   io.Reader
		config Config
	}{
		// The user timeout must not outdo the probes.
		"while it is silent": {nil, Config{KeepAlive: interval, UserTimeout: 5 * time.Minute}},
		// No probe is sent.
		"while it acknowledges nothing of what is sent": {endless{}, Config{KeepAlive: time.Hour, UserTimeout: 4 * interval}},
	} {
		for _, client := range []Client{Lean, Standard} {
			t.Run(name+", "+string(client), func(t *testing.T) {
				t.Parallel()
				config := c.config
				config.Client = client
				tr := New(config)
				defer tr.CloseIdle()
				resp, err := tr.RoundTrip(request(t, http.MethodPost, "l", vanishing(t), c.body))
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
}

// While a long call is carried out nothing is sent, and all that was is acknowledged.
// The machine is found out as if there were no call: by the probes.
func TestAMachineThatDiesDuringALongCallIsFoundOutByTheProbes(t *testing.T) {
	t.Parallel()
	const interval = time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	over := make(chan struct{})
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if r, _ := readRequest(bufio.NewReader(c)); r != nil {
			// Its kernel goes on acknowledging what has come.
			vanish(t, c)
		}
		<-over
	}()
	defer close(over)
	tr := New(Config{KeepAlive: interval, UserTimeout: 5 * time.Minute})
	defer tr.CloseIdle()
	began := time.Now()
	resp, err := tr.RoundTrip(request(t, http.MethodPost, "l", l.Addr().String(), bytes.NewReader([]byte("question"))))
	if err == nil {
		resp.Body.Close()
	}
	if d := time.Since(began); !errors.Is(err, syscall.ETIMEDOUT) || d < interval || d > 15*interval {
		t.Errorf("ended after %v with %v", d, err)
	}
}

// A process may stop for a while, in a debugger or a pause. The kernel of its
// machine acknowledges every probe of the full window meanwhile.
func TestAPeerThatDoesNotReadIsCutAfterTheUserTimeoutOnly(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, c Config) {
		t.Parallel()
		const interval, limit = time.Second, 8 * time.Second
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c.KeepAlive, c.UserTimeout = interval, limit
		tr := New(c)
		defer tr.CloseIdle()
		began := time.Now()
		// It is connected to the backlog, and read by nobody.
		_, err = tr.RoundTrip(request(t, http.MethodPost, "l", l.Addr().String(), endless{}))
		// The kernel tells why only once, and of net/http whoever writes is believed.
		told := errors.Is(err, syscall.ETIMEDOUT) || c.Client == Standard && errors.Is(err, syscall.EPIPE)
		if d := time.Since(began); !told || d < limit || d > 5*limit {
			t.Errorf("cut after %v with %v", d, err)
		}
	})
}

func TestTheUserTimeoutIsSetWhileSomethingIsUnderWay(t *testing.T) {
	ours, theirs := pair(t)
	option := func() (ms int) {
		if err := ours.raw.Control(func(fd uintptr) {
			ms, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		}); err != nil {
			t.Fatal(err)
		}
		return ms
	}
	p := make([]byte, 1)
	for range 2 {
		ours.Write(p)
		if got := option(); got != 60_000 {
			t.Errorf("after a write it is %d ms", got)
		}
		theirs.Read(p)
		theirs.Write(p) // acknowledges
		ours.Read(p)
		if got := option(); got != 0 {
			t.Errorf("after the answer it is %d ms", got)
		}
	}
	ours.unacked.limit = -1
	ours.Write(p)
	if got := option(); got != 0 {
		t.Errorf("it is off, and %d ms", got)
	}
}

// Of the lean client's connections whoever comes by sees to it.
func TestTheUserTimeoutOfALeanConnectionIsSetWhileSomethingIsUnacknowledged(t *testing.T) {
	ours, theirs := pair(t)
	c, err := newLeanConn(ours.Conn, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	option := func() (ms int) {
		c.raw.Control(func(fd uintptr) {
			ms, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		})
		return ms
	}
	c.WatchUsed()
	if got := option(); got != 0 {
		t.Errorf("with nothing under way it is %d ms", got)
	}
	for n := 0; ; { // until nothing more is taken
		if n, err = c.WriteNow(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		} else if n == 0 {
			break
		}
	}
	if got := option(); got != 0 {
		t.Errorf("before anybody comes by it is %d ms", got)
	}
	c.WatchUsed()
	if got := option(); got != 60_000 {
		t.Errorf("with much under way it is %d ms", got)
	}
	go io.Copy(io.Discard, theirs)
	for option() != 0 { // once all is acknowledged
		c.WatchUsed()
	}
}

func TestALookAtAnIdleConnectionTakesNothing(t *testing.T) {
	ours, theirs := pair(t)
	c, err := newLeanConn(ours.Conn, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !c.WatchIdle() || !c.Quiet() {
		t.Error("it is not quiet")
	}
	theirs.Write([]byte("x"))
	arrived(t, c.conn)
	if c.WatchIdle() {
		t.Error("it is said to be quiet")
	}
	p := make([]byte, 10)
	if n, err := c.Read(p); n != 1 || err != nil {
		t.Error(n, err)
	}
	theirs.Close()
	arrived(t, c.conn)
	if c.WatchIdle() || c.Quiet() {
		t.Error("its end is not seen")
	}
}

// endless is a request body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("y"), min(len(p), 1024))), nil
}
