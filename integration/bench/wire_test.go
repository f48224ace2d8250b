package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// reader reads HTTP/1.1 from a connection with as little work as that takes.
// It knows both sides: heads are bytes up to an empty line.
type reader struct {
	conn  net.Conn
	buf   []byte
	begin int // of what was read and not handed out
	end   int
}

var (
	emptyLine   = []byte("\r\n\r\n")
	errLongHead = errors.New("a head is longer than the buffer")
)

// head returns the next head with its empty line. It is good until the next call.
func (r *reader) head() ([]byte, error) {
	for {
		if i := bytes.Index(r.buf[r.begin:r.end], emptyLine); i >= 0 {
			head := r.buf[r.begin : r.begin+i+len(emptyLine)]
			r.begin += len(head)
			return head, nil
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// body returns the next n bytes, which the buffer must have room for. They are
// good until the next call.
func (r *reader) body(n int) ([]byte, error) {
	for r.end-r.begin < n {
		if err := r.more(); err != nil {
			return nil, err
		}
	}
	b := r.buf[r.begin : r.begin+n]
	r.begin += n
	return b, nil
}

// large are buffers for bodies, which are too long for a connection's own.
var large = sync.Pool{New: func() any { b := make([]byte, inBlock); return &b }}

// each reads n bytes and shows them to look, piece by piece.
func (r *reader) each(n int64, look func(piece []byte) error) error {
	had := min(int64(r.end-r.begin), n)
	piece := r.buf[r.begin : r.begin+int(had)]
	r.begin += int(had)
	var buf []byte
	for {
		if err := look(piece); err != nil {
			return err
		}
		if n -= int64(len(piece)); n == 0 {
			return nil
		}
		if buf == nil {
			pooled := large.Get().(*[]byte)
			defer large.Put(pooled)
			buf = *pooled
		}
		got, err := r.conn.Read(buf[:min(n, int64(len(buf)))])
		if got == 0 && err != nil {
			return err
		}
		piece = buf[:got]
	}
}

// skip reads n bytes and throws them away.
func (r *reader) skip(n int64) error { return r.each(n, func([]byte) error { return nil }) }

// chunked reads a body in chunks to its end, without trailers, and shows what is
// in them to look.
func (r *reader) chunked(look func(piece []byte) error) error {
	for {
		line, err := r.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return err
		}
		for left := int(size); left > 0; {
			piece, err := r.some(left)
			if err != nil {
				return err
			}
			if err := look(piece); err != nil {
				return err
			}
			left -= len(piece)
		}
		if line, err := r.line(); err != nil || len(line) > 0 {
			return fmt.Errorf("%q stands where a chunk ends: %w", line, err)
		}
		if size == 0 {
			return nil
		}
	}
}

// line returns the next line without its end. It is good until the next call.
func (r *reader) line() ([]byte, error) {
	for {
		if i := bytes.Index(r.buf[r.begin:r.end], emptyLine[:2]); i >= 0 {
			line := r.buf[r.begin : r.begin+i]
			r.begin += i + 2
			return line, nil
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// some returns up to n bytes, as many as there are. They are good until the next
// call.
func (r *reader) some(n int) ([]byte, error) {
	if r.begin == r.end {
		if err := r.more(); err != nil {
			return nil, err
		}
	}
	b := r.buf[r.begin:min(r.end, r.begin+n)]
	r.begin += len(b)
	return b, nil
}

// more reads from the connection once.
func (r *reader) more() error {
	switch {
	case r.begin == r.end:
		r.begin, r.end = 0, 0
	case r.end == len(r.buf) && r.begin > 0:
		r.end = copy(r.buf, r.buf[r.begin:r.end])
		r.begin = 0
	case r.end == len(r.buf):
		return errLongHead
	}
	n, err := r.conn.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// field is the value of a header in a head, nil when there is none.
func field(head []byte, name string) []byte {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\r\n"))
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
		head = rest
	}
	return nil
}
