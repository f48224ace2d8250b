//go:build unix

package upstream

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// leanPair is a connection of the lean client and its other end.
func leanPair(t *testing.T) (ours *leanConn, theirs *net.TCPConn) {
	t.Helper()
	c, theirs := pair(t)
	ours, err := newLeanConn(c.Conn, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// reads counts the system calls that read.
func reads(c *leanConn) *int {
	n := new(int)
	ask, read := c.ask, c.read
	c.ask = func(fd uintptr) bool {
		if c.out == nil {
			*n++
		}
		return ask(fd)
	}
	c.read = func(fd uintptr) bool { *n++; return read(fd) }
	return n
}

func TestAnAnswerIsWaitedForWithoutAReadInVain(t *testing.T) {
	ours, theirs := leanPair(t)
	n := reads(ours)
	answered := make(chan error, 1)
	go func() {
		question := make([]byte, 8)
		_, err := io.ReadFull(theirs, question)
		if err == nil {
			_, err = theirs.Write([]byte("answer to " + string(question)))
		}
		answered <- err
	}()
	if wrote, err := ours.Ask([]byte("question")); wrote != 8 || err != nil {
		t.Fatal(wrote, err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64)
	read, err := ours.Read(got)
	if string(got[:read]) != "answer to question" || err != nil {
		t.Errorf("%q, %v", got[:read], err)
	}
	if *n != 1 {
		t.Errorf("%d reads", *n)
	}
}

func TestNothingIsAskedWhereSomethingWasSaid(t *testing.T) {
	for name, say := range map[string]func(theirs *net.TCPConn){
		"a byte":  func(theirs *net.TCPConn) { theirs.Write([]byte("x")) },
		"the end": func(theirs *net.TCPConn) { theirs.CloseWrite() },
		"a reset": func(theirs *net.TCPConn) { theirs.SetLinger(0); theirs.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := leanPair(t)
			say(theirs)
			for ours.WatchIdle() {
				// Until it has arrived.
			}
			if n, err := ours.Ask([]byte("question")); n != 0 || !errors.Is(err, errNotQuiet) {
				t.Error(n, err)
			}
		})
	}
}

func TestWhatEndsTheWaitForAnAnswerIsToldByTheNextRead(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(ours *leanConn, theirs *net.TCPConn)
		want error
	}{
		"the end":            {func(_ *leanConn, theirs *net.TCPConn) { theirs.CloseWrite() }, io.EOF},
		"a reset":            {func(_ *leanConn, theirs *net.TCPConn) { theirs.SetLinger(0); theirs.Close() }, syscall.ECONNRESET},
		"closed by us":       {func(ours *leanConn, _ *net.TCPConn) { ours.Close() }, net.ErrClosed},
		"our time has ended": {func(ours *leanConn, _ *net.TCPConn) { ours.SetReadDeadline(time.Unix(1, 0)) }, syscall.ETIMEDOUT},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := leanPair(t)
			go func() {
				io.ReadFull(theirs, make([]byte, 8)) // so that it is waited for an answer
				tc.end(ours, theirs)
			}()
			if wrote, err := ours.Ask([]byte("question")); wrote != 8 || err != nil {
				t.Fatal(wrote, err)
			}
			_, err := ours.Read(make([]byte, 8))
			var timeout net.Error
			if tc.want == syscall.ETIMEDOUT && errors.As(err, &timeout) && timeout.Timeout() {
				return
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

func TestNothingIsWaitedForWhenNotAllWasWritten(t *testing.T) {
	ours, _ := leanPair(t)
	for {
		n, err := ours.Ask(make([]byte, 8<<20)) // nobody reads
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func TestAConnectionThatIsClosedWritesNothing(t *testing.T) {
	ours, _ := leanPair(t)
	ours.Close()
	if n, err := ours.Ask([]byte("question")); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Error(n, err)
	}
}
