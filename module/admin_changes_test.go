package module

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// oneConn is a listener with one connection.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l oneConn) Close() error   { close(l.closed); return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestAReaderOfChangesThatSleepsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, served := net.Pipe() // takes nothing that is not read
		defer reader.Close()
		l := oneConn{make(chan net.Conn, 1), make(chan struct{})}
		l.conn <- served
		left := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(left)
			newChangeQueue().tell(r.Context(), w)
		})}
		go server.Serve(l)
		defer server.Close()
		begun := time.Now()
		if _, err := io.WriteString(reader, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-left
		if took := time.Since(begun); took != watchPatience {
			t.Errorf("after %v", took)
		}
	})
}
