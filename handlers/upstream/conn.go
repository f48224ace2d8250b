package upstream

import (
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
)

// chunks are what connections read into. A connection has one only while there
// is something in it: of 10,000 streams nearly all are silent.
var chunks = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}

const (
	chunkSize = 64 << 10
	// past is how long a buffer must be to be read into without a chunk, in bytes.
	past = chunkSize / 2
)

// conn is a TCP connection that reads ahead, as much as there is, and holds no
// memory while it waits. With it the buffer that its client keeps for each
// connection can be small at no cost. It exists where a system call reads
// without waiting (newConn); elsewhere nobody knows how much is there.
type conn struct {
	net.Conn
	raw        syscall.RawConn
	chunk      *[]byte                      // nil when all of it was taken
	start, end int                          // of what is left in chunk
	ahead      atomic.Int32                 // end-start, for those who do not read
	into       []byte                       // what is read into, past chunk; nil for chunk
	read       func(fd uintptr) (done bool) // reads when there is something
	readNow    func(fd uintptr) (done bool) // reads what there is, if there is
	n          int                          // of into, that was read
	slow       bool                         // the last read had to wait, and took all that came then
	readErr    error                        // of the system call; it stays
	unacked    userTimeout
	counted    *Connections // where, nil for nowhere
}

// Read implements net.Conn. It is called by one goroutine at a time.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.chunk == nil {
		if len(p) >= past {
			return c.readPast(p)
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, (*c.chunk)[c.start:c.end])
	if c.start += n; c.start == c.end {
		c.giveBack()
	}
	c.ahead.Store(int32(c.end - c.start))
	return n, nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.unacked.start(c.raw)
	return c.Conn.Write(p)
}

// Buffered is how many bytes can be read without waiting. It may be called at
// any time: after the end of a body http.Transport reads on by itself.
func (c *conn) Buffered() int { return int(c.ahead.Load()) }

// Ready is Buffered after a look for more, if that is next to nothing and more may have
// come meanwhile: from a peer that had to be waited for it has not. It does not wait, and
// is called by who reads, between its reads.
func (c *conn) Ready() int {
	if c.end-c.start < enough && !c.slow {
		c.look()
		c.ahead.Store(int32(c.end - c.start))
	}
	return c.end - c.start
}

// enough is how many bytes read ahead keep Ready from looking for more: the frame of
// an HTTP chunk may be all there is.
const enough = 64

// CloseWrite ends one direction. A tunnel's other one may go on.
func (c *conn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// room is where the chunk is read into, behind what is left in it.
func (c *conn) room() []byte {
	if c.chunk == nil {
		c.chunk = chunks.Get().(*[]byte)
	}
	if c.start > 0 {
		c.end = copy(*c.chunk, (*c.chunk)[c.start:c.end])
		c.start = 0
	}
	return (*c.chunk)[c.end:]
}

func (c *conn) giveBack() {
	chunks.Put(c.chunk)
	c.chunk, c.start, c.end = nil, 0, 0
}

// body is the body of a response that says how much of it is there.
type body struct {
	io.ReadCloser
	conn *conn
}

// Buffered is how many bytes of the connection were read ahead: at least some of
// them belong to the body, or to what ends it.
func (b body) Buffered() int { return b.conn.Buffered() }

// Ready is Buffered after a look for more. It is for who reads the body, until that
// has ended: from then on http.Transport reads the connection.
func (b body) Ready() int { return b.conn.Ready() }

// traced makes http.Transport tell which connection it sends a request on. Over
// TLS there is none: nobody knows how much of a record has arrived.
func traced(ctx context.Context, on **conn) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		*on, _ = info.Conn.(*conn)
	}})
}
