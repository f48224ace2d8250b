package h1

import (
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"sync"

	"golang.org/x/net/http/httpguts"
)

const (
	// beforeChunk is room for "1fff2\r\n", behindChunk for "\r\n0\r\n\r\n".
	beforeChunk, behindChunk = 7, 7
	// A body is waited for in a buffer that is no shorter than what net/http's server
	// reads ahead, so that it reads into ours. One that comes faster gets longer ones,
	// each when the one before was full, until there is less than the shortest would
	// hold. So whoever falls silent holds no more than four times what was sent, or than
	// net/http would. In bytes.
	waitSize, middleSize, sendSize = 4<<10 + beforeChunk + behindChunk, 32 << 10, 128 << 10
)

// sendBuffers are the longer ones.
var sendBuffers = [...]sync.Pool{
	{New: func() any { b := make([]byte, middleSize); return &b }},
	{New: func() any { b := make([]byte, sendSize); return &b }},
}

// copy sends the body. Each piece leaves as it comes.
func (s *sending) copy() error {
	b := sendBuffer{small: make([]byte, waitSize)}
	defer b.free()
	left := s.m.length // negative in chunks
	for {
		room := b.room()
		if left >= 0 {
			// One byte more than there should be: there must be none.
			room = room[:min(int64(len(room)), left+1)]
		}
		n, err := s.m.body.Read(room)
		ended := err == io.EOF
		switch {
		case err != nil && !ended:
			return &bodyError{err}
		case left >= 0 && (int64(n) > left || ended && int64(n) < left):
			return &bodyError{errBodyLength}
		}
		out := room[:n]
		if left < 0 {
			out = b.chunk(n)
			if ended {
				out = append(appendTrailers(append(out, "0\r\n"...), s.m.trailer), "\r\n"...)
			}
		} else {
			left -= int64(n)
		}
		s.last.Store(ended || left == 0)
		if len(out) > 0 {
			if err := s.write(out); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		b.adapt(n)
	}
}

// sendBuffer is what a body is read into: a small buffer while there is nothing, as
// far as can be told, and one from a pool while there is much.
type sendBuffer struct {
	small  []byte
	pooled *[]byte
	longer int // how many times a longer one was taken: pooled is of sendBuffers[longer-1]
}

func (b *sendBuffer) all() []byte {
	if b.pooled != nil {
		return *b.pooled
	}
	return b.small
}

// room is where to read to.
func (b *sendBuffer) room() []byte {
	all := b.all()
	return all[beforeChunk : len(all)-behindChunk]
}

// chunk makes a chunk of the first n bytes of the room.
func (b *sendBuffer) chunk(n int) []byte {
	all := b.all()
	if n == 0 {
		return all[:0]
	}
	var digits [beforeChunk]byte
	size := append(strconv.AppendUint(digits[:0], uint64(n), 16), "\r\n"...)
	start := beforeChunk - len(size)
	copy(all[start:], size)
	return append(all[start:beforeChunk+n], "\r\n"...)
}

// adapt chooses the buffer for the next read after one of n bytes.
func (b *sendBuffer) adapt(n int) {
	switch {
	case n < waitSize-beforeChunk-behindChunk:
		b.free()
	case n == len(b.room()) && b.longer < len(sendBuffers):
		longer := b.longer
		b.free()
		b.pooled, b.longer = sendBuffers[longer].Get().(*[]byte), longer+1
	}
}

func (b *sendBuffer) free() {
	if b.pooled != nil {
		sendBuffers[b.longer-1].Put(b.pooled)
	}
	b.pooled, b.longer = nil, 0
}

// appendTrailers appends what the trailers have become by now. They were checked when
// they were announced; what has come since and cannot be sent is left out.
func appendTrailers(b []byte, h http.Header) []byte {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) || setByUs(name) == framing {
			continue
		}
		for _, v := range values {
			if httpguts.ValidHeaderFieldValue(v) {
				b = append(append(b, name...), ": "...)
				b = append(append(b, textproto.TrimString(v)...), "\r\n"...)
			}
		}
	}
	return b
}
