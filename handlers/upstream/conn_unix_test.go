//go:build unix

package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pair is a connection of ours and its other end.
func pair(t *testing.T) (ours *conn, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); other.Close() })
	return newConn(c, time.Minute).(*conn), other.(*net.TCPConn)
}

func TestAConnectionReadsAheadWhatIsThere(t *testing.T) {
	ours, theirs := pair(t)
	sent := bytes.Repeat([]byte("0123456789"), 10_000)
	go func() { theirs.Write(sent); theirs.CloseWrite() }()
	var got []byte
	p := make([]byte, 7)
	for {
		before := ours.Buffered()
		n, err := ours.Read(p)
		if before > 0 && (n != min(before, len(p)) || ours.Buffered() != before-n) {
			t.Fatalf("read %d with %d ahead, and %d are left", n, before, ours.Buffered())
		}
		got = append(got, p[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d, or others", len(got), len(sent))
	}
	if ours.chunk != nil {
		t.Error("the chunk was not given back")
	}
}

func TestAConnectionThatWaitsHoldsNoChunk(t *testing.T) {
	ours, theirs := pair(t)
	waiting := make(chan struct{})
	ours.read = func(fd uintptr) bool {
		done := ours.readReady(fd)
		if !done {
			if ours.chunk != nil {
				t.Error("waits with a chunk")
			}
			close(waiting)
		}
		return done
	}
	go func() { <-waiting; theirs.Write([]byte("x")) }()
	if n, err := ours.Read(make([]byte, 10)); n != 1 || err != nil || ours.chunk != nil {
		t.Fatal(n, err, ours.chunk)
	}
}

func TestALongReadGoesPastTheChunk(t *testing.T) {
	ours, theirs := pair(t)
	theirs.Write([]byte("some"))
	p := make([]byte, past)
	ours.read = func(fd uintptr) bool {
		done := ours.readReady(fd)
		if ours.chunk != nil {
			t.Error("a chunk was taken")
		}
		return done
	}
	if n, err := ours.Read(p); n != 4 || err != nil || string(p[:n]) != "some" {
		t.Fatalf("%q, %v", p[:n], err)
	}
	theirs.Close()
	if n, err := ours.Read(p); n != 0 || err != io.EOF {
		t.Fatal(n, err)
	}
}

// arrived waits until there is something to read, and takes nothing.
func arrived(t *testing.T, c *conn) {
	t.Helper()
	if err := c.raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	}); err != nil {
		t.Fatal(err)
	}
}

func TestALookForMoreDoesNotWait(t *testing.T) {
	ours, theirs := pair(t)
	if n := ours.Ready(); n != 0 || ours.chunk != nil {
		t.Fatalf("%d bytes of nothing, in %v", n, ours.chunk)
	}
	theirs.Write([]byte("one"))
	arrived(t, ours)
	if n := ours.Ready(); n != 3 {
		t.Fatalf("%d bytes", n)
	}
	ours.Read(make([]byte, 1))
	theirs.Write([]byte("two"))
	for ours.Ready() < 5 { // of what is next to nothing there may be more
		arrived(t, ours)
	}
	p := make([]byte, 10)
	if n, err := ours.Read(p); string(p[:n]) != "netwo" || err != nil || ours.Buffered() != 0 {
		t.Fatalf("%q, %v", p[:n], err)
	}
}

func TestALookThatFindsAFailureLeavesItToTheNextRead(t *testing.T) {
	ours, theirs := pair(t)
	theirs.SetLinger(0)
	theirs.Close()
	for ours.readErr == nil {
		if n := ours.Ready(); n != 0 {
			t.Fatalf("%d bytes", n)
		}
	}
	if _, err := ours.Read(make([]byte, 10)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
}

func TestTheErrorsOfAConnectionAreThoseOfTheNetwork(t *testing.T) {
	p := make([]byte, 10)
	ours, theirs := pair(t)
	theirs.SetLinger(0)
	theirs.Close()
	if _, err := ours.Read(p); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a reset is %v", err)
	}

	ours, _ = pair(t)
	ours.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := ours.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline is %v", err)
	}

	ours, _ = pair(t)
	waiting := make(chan struct{})
	ours.read = func(fd uintptr) bool { defer close(waiting); return ours.readReady(fd) }
	go func() { <-waiting; ours.Close() }()
	if _, err := ours.Read(p); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed is %v", err)
	}
}

// What is ready must be known through the client, or batches get small.
func TestABodyKnowsWhatWasReadAhead(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		s := serve(t, c, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			fmt.Fprint(c, strings.Repeat("5\r\nhello\r\n", 1000)+"0\r\n\r\n")
		})
		resp, err := s.RoundTrip(httpRequest(t, s.url))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		ahead := 0
		p := make([]byte, 100)
		total := 0
		for {
			n, err := resp.Body.Read(p)
			total += n
			ahead = max(ahead, resp.Body.(interface{ Buffered() int }).Buffered())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if total != 5000 || ahead < 1000 {
			t.Fatalf("%d bytes, at most %d ahead", total, ahead)
		}
	})
}

// scripted is a transport and the URL of a server that a test scripts.
type scripted struct {
	*Transport
	url string
}

func serve(t *testing.T, c Config, answer func(net.Conn)) scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Read(make([]byte, 4096))
		answer(c)
	}()
	tr := New(c)
	t.Cleanup(tr.CloseIdle)
	return scripted{tr, "http://" + Host("life", l.Addr().String())}
}

func httpRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
