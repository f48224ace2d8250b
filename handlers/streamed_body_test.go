package handlers

import (
	"errors"
	"io"
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
