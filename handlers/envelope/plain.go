package envelope

import (
	"errors"
	"io"
)

// CopyPlain copies a body that is not made of frames.
//
// flush is called before every read that may have to wait, and is nil for a body
// that nobody waits for piece by piece, say one of known length. With a flush, and
// like a relay, it holds next to no memory while the source is silent, unless the
// last that came was long.
//
// readErr is nil when the source has ended. writeErr is why the client could
// not be written to.
func CopyPlain(dst io.Writer, flush func() error, src io.Reader) (readErr, writeErr error) {
	var b buffer
	if flush != nil {
		b.wait = make([]byte, plainWaitSize)
	}
	defer b.drop()
	ahead, _ := src.(Ahead)
	unflushed := false
	for {
		if unflushed && mayWait(ahead) {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		b.makeReady(flush != nil)
		n, err := src.Read(b.b)
		b.end = n
		if err == nil && flush != nil {
			var more int
			more, err = b.fillReady(src, ahead)
			n += more
		}
		if n > 0 {
			if _, err := dst.Write(b.b[:n]); err != nil {
				return nil, err
			}
			unflushed = flush != nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		}
	}
}

// transfer is how much a read brings, in bytes, that is part of a transfer and
// not of a conversation: to wait for the next one in the small buffer would cut
// it in two.
const transfer = 4 * plainWaitSize

// makeReady chooses the buffer for the next read by what the last one brought.
func (b *buffer) makeReady(mayWait bool) {
	last := b.end
	switch {
	case b.chunk != nil && (!mayWait || last >= transfer):
	case b.chunk == nil && (!mayWait || last == len(b.wait)):
		b.chunk = chunks.Get().(*[]byte)
		b.b = *b.chunk
	default:
		b.drop()
		b.b = b.wait
	}
}
