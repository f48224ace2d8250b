package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// calls is how many are made. -count 10 makes it the 20,000 that the client was first
// held to.
const calls = 2000

// inParallel makes calls from eight goroutines.
func inParallel(call func(i int)) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		all.Go(func() {
			for i := next.Add(1); i <= calls; i = next.Add(1) {
				call(int(i))
			}
		})
	}
	all.Wait()
}

// An answer that begins while the body is under way has cut one in a thousand streams
// where the two were mixed up (golang/go#40747).
func TestNoShortStreamIsCut(t *testing.T) {
	w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", len(b), b)
		}
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	inParallel(func(i int) {
		want := fmt.Sprint("call ", i)
		resp, err := tr.RoundTrip(request(t, "POST", "l", w.address, io.LimitReader(strings.NewReader(want), 100)))
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); string(b) != want || err != nil {
			t.Errorf("call %d: %q, %v", i, b, err)
		}
	})
	// The end of an answer may overtake the last write by a little.
	if n := w.dials.Load(); n > calls/10 {
		t.Errorf("%d connections for %d calls", n, calls)
	}
}

// Field report H01. A server may close a connection at the instant at which it is used again. Such a call
// has failed; none may be carried out twice, and none that was answered be lost.
func TestNothingIsDoneTwiceWhateverTheServerCloses(t *testing.T) {
	done := make([]atomic.Int32, calls+1)
	w := speak(t, func(t *testing.T, c *net.TCPConn, br *bufio.Reader) {
		for {
			r, body := readRequest(br)
			if r == nil {
				return
			}
			var i int
			fmt.Sscan(body, &i)
			done[i].Add(1)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			switch rand.N(4) {
			case 0:
				return
			case 1:
				for range rand.N(20_000) { // a while
				}
				return
			}
		}
	})
	tr := New(Config{})
	defer tr.CloseIdle()
	var failed atomic.Int32
	inParallel(func(i int) {
		resp, err := tr.RoundTrip(request(t, "POST", "l", w.address, strings.NewReader(fmt.Sprint(i))))
		if err == nil {
			var b []byte
			b, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && (string(b) != "ok" || done[i].Load() != 1) {
				t.Errorf("call %d: %q, done %d times", i, b, done[i].Load())
			}
		}
		if err != nil {
			failed.Add(1)
			var dial *DialError
			if errors.As(err, &dial) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
	for i := range done {
		if n := done[i].Load(); n > 1 {
			t.Errorf("call %d was done %d times", i, n)
		}
	}
	t.Logf("%d of %d calls met a connection that was just being closed", failed.Load(), calls)
}
