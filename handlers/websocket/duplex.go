package websocket

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Duplex is the client's side of a WebSocket over HTTP/2, for [Tunnel]: it reads the
// request's body and writes the answer's. Its own direction ends with the handler, so
// there is no CloseWrite.
type Duplex struct {
	net.Conn // nil: the connection is shared, and nobody asks for its addresses
	Body     io.Reader
	Answer   http.ResponseWriter
	Control  *http.ResponseController

	mu       sync.Mutex
	deadline time.Time // for writing
	writing  bool
}

// Read implements net.Conn.
func (d *Duplex) Read(p []byte) (int, error) { return d.Body.Read(p) }

// Write implements net.Conn. What is written goes out at once.
func (d *Duplex) Write(p []byte) (int, error) {
	d.begin()
	n, err := d.Answer.Write(p)
	if err == nil {
		err = d.Control.Flush()
	}
	return n, d.done(err)
}

// begin sets the deadline of a write. To net/http it is the stream's, so it holds while
// something is written only: a socket may be silent.
func (d *Duplex) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = true
	if !d.deadline.IsZero() {
		_ = d.Control.SetWriteDeadline(d.deadline)
	}
}

func (d *Duplex) done(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = false
	switch {
	case d.deadline.IsZero():
	case err == nil:
		_ = d.Control.SetWriteDeadline(time.Time{})
	case !time.Now().Before(d.deadline):
		err = errors.Join(os.ErrDeadlineExceeded, err) // net/http says that the stream is closed
	}
	return err
}

// SetWriteDeadline implements net.Conn, also for a Write that is under way.
func (d *Duplex) SetWriteDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = t
	if d.writing {
		return d.Control.SetWriteDeadline(t)
	}
	return nil
}

// Close implements net.Conn: a Read that waits returns, and so does every later one.
func (d *Duplex) Close() error { return d.Control.SetReadDeadline(time.Unix(1, 0)) }
