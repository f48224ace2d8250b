package incidents

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// relay is the network between the gateway and Redis, which may be slow.
type relay struct {
	ln    net.Listener
	to    string
	delay atomic.Int64 // of each piece of an answer, a time.Duration
	work  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, to: to}
	r.work.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// close ends it, with all that it carries.
func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.ln.Close()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			client.Close()
			continue
		}
		if !r.keep(client, server) {
			return
		}
		for _, way := range []func(){
			func() { _, _ = io.Copy(server, client) },
			func() { r.answer(client, server) },
		} {
			r.work.Go(func() {
				way()
				client.Close()
				server.Close()
			})
		}
	}
}

// keep is false when it is closed already.
func (r *relay) keep(both ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, both...)
	if r.closed {
		for _, c := range both {
			c.Close()
		}
	}
	return !r.closed
}

func (r *relay) answer(client, server net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			if d := time.Duration(r.delay.Load()); d > 0 {
				<-time.After(d)
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
