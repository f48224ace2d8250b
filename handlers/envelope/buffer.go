package envelope

import (
	"io"
	"sync"
)

// There may be many streams that wait, and few that send: the pooled chunks, of
// chunkSize bytes, are for those. A stream waits for data in a buffer of its
// own, of waitSize bytes for frames: it may be small, because what is no whole
// frame is not sent, and read on into a chunk. Every piece of a plain body is
// sent, so there it must hold most events.
const (
	waitSize      = 64
	plainWaitSize = 512
	chunkSize     = 64 << 10
)

var chunks = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}

// buffer reads from a source. b[start:end] is what was read and not yet taken.
type buffer struct {
	start, end int
	b          []byte
	chunk      *[]byte // b, when b is pooled
	wait       []byte  // b, while there is nothing to hold
}

// waits reports that b is the buffer to wait in.
func (b *buffer) waits() bool { return b.chunk == nil && len(b.b) == len(b.wait) }

// fill reads once. It keeps what is there and grows, up to most bytes, when
// that leaves no room.
func (b *buffer) fill(src io.Reader, most int) (n int, err error) {
	switch {
	case b.start == b.end:
		b.drop()
		b.b = b.wait
	case b.waits():
		// A frame has begun, so the rest of it is near.
		b.chunk = chunks.Get().(*[]byte)
		b.move(*b.chunk)
	case b.end < len(b.b):
	case b.start > 0:
		b.move(b.b)
	default:
		bigger := make([]byte, min(2*len(b.b), most))
		b.move(bigger)
		b.giveBack()
	}
	n, err = src.Read(b.b[b.end:])
	b.end += n
	return n, err
}

// Ahead is a source that knows how many bytes it has ready, and may look for more,
// which does not wait. They are relayed in one batch, and nothing is flushed before
// there are none. It is asked between two reads.
type Ahead interface{ Ready() int }

// Enough is how many bytes of a connection must be ready, at least, for a read that
// shall not wait: more than the frame of an HTTP chunk, so that it finds some of the
// body.
const Enough = 64

// mayWait reports that the next read of the source, nil when it does not know what
// it has, may have to wait.
func mayWait(ahead Ahead) bool { return ahead == nil || ahead.Ready() < Enough }

// fillReady reads what the source has ready into the room that is left. ahead
// is the source, or nil when it does not know what it has.
func (b *buffer) fillReady(src io.Reader, ahead Ahead) (n int, err error) {
	for err == nil && (b.waits() || b.end < len(b.b)) && !mayWait(ahead) {
		if b.waits() {
			b.chunk = chunks.Get().(*[]byte)
			b.move(*b.chunk)
		}
		var more int
		more, err = src.Read(b.b[b.end:])
		b.end += more
		n += more
		if more == 0 {
			break
		}
	}
	return n, err
}

// move puts what is there to the front of another buffer, or of its own.
func (b *buffer) move(to []byte) {
	b.end = copy(to, b.b[b.start:b.end])
	b.start, b.b = 0, to
}

// drop empties the buffer and lets go of its memory.
func (b *buffer) drop() {
	b.start, b.end, b.b = 0, 0, nil
	b.giveBack()
}

func (b *buffer) giveBack() {
	if b.chunk != nil {
		chunks.Put(b.chunk)
		b.chunk = nil
	}
}
