package handlers

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// HTTP/2's client waits for its read of a body to end before it says that the
// answer was lost; and the end that it makes is no failure of the client's.
func TestWhoClosesABodyThatIsStillComingEndsTheReadThatWaits(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	cut := errors.New("interrupted")
	body := &streamedBody{body: r, left: -1, dog: &watchdog{}, interrupt: func() { r.CloseWithError(cut) }}

	body.Close() // after a dial that failed: it is sent again
	go w.Write([]byte("x"))
	b := make([]byte, 1)
	if n, err := body.Read(b); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	reading := make(chan error)
	go func() {
		_, err := body.Read(b)
		reading <- err
	}()
	body.Close()
	if err := <-reading; err == nil || body.failed.Load() != nil {
		t.Errorf("read ended with %v, failed is %v", err, body.failed.Load())
	}
}

// HTTP/2's client closes a body in a goroutine of its own, which may come when the
// handler has returned. What interrupts reads is not the call's any more then.
func TestABodyThatIsClosedAfterItsCallInterruptsNothing(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	interrupted := 0
	body := &streamedBody{body: r, left: -1, dog: &watchdog{}, interrupt: func() { interrupted++ }}
	go w.Write([]byte("x"))
	if _, err := body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	var closing sync.WaitGroup
	for range 8 {
		closing.Go(func() { body.Close() })
	}
	body.finish(http.NewResponseController(httptest.NewRecorder()))
	closing.Wait()
	before := interrupted
	if body.Close(); interrupted != before {
		t.Error("it was interrupted")
	}
}
