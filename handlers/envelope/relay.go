package envelope

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrInvalidFrame is wrapped by the error of a relay whose source sent a frame
// that the client could not read: an unknown flag, or a compressed message
// nobody asked for.
var ErrInvalidFrame = errors.New("frame not allowed")

// ErrNoEndStream ends a relay whose source ended, politely, without EndStream.
var ErrNoEndStream = errors.New("the stream ended without EndStream")

// Relay copies a Connect stream frame by frame. A frame is forwarded when it is
// whole: a client cannot use half of one, so holding it costs no latency, and
// whenever the source fails the client is at a boundary where EndStream can
// follow.
type Relay struct {
	// Dst is the client.
	Dst io.Writer
	// Flush sends what was written to Dst. It is called after every batch of
	// whole frames.
	Flush func() error
	// MaxHeld is the longest frame that is held, in bytes. A longer one is
	// passed on as it comes; when the source fails inside it, the cut cannot
	// be told in the protocol (see Result.Torn).
	MaxHeld int
	// Compressed allows compressed messages.
	Compressed bool
	// EndStream is given the payload of EndStream before it is sent, and how
	// many messages went before it, and returns the payload to send instead.
	// It is not called for a compressed one, which is passed on as it is. Nil
	// keeps every payload.
	EndStream func(payload []byte, messages int64) []byte
	// Final reports that nothing but EndStream is missing after a message. It
	// is asked about messages of up to [MaxFinal] bytes. Nil: never.
	Final func(payload []byte) bool
}

// Result is how a relay ended.
type Result struct {
	// Ended: EndStream was delivered. Everything is well, whatever the source
	// did afterwards.
	Ended bool
	// Messages counts the whole messages that were delivered.
	Messages int64
	// Final: a message was delivered whole that Relay.Final knows.
	Final bool
	// Torn: part of a frame was delivered. Nothing may follow it.
	Torn bool
	// ReadErr is why the source ended before EndStream, and nil if it did
	// not. WriteErr is why the client could not be written to.
	ReadErr, WriteErr error
}

// MaxFinal is the longest message that Relay.Final is asked about, in bytes:
// what a process says when it exits is short.
const MaxFinal = 64 << 10

// chunkSize is the size of the pooled buffers. Frames up to MaxHeld grow a
// buffer of their own.
const chunkSize = 32 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}

// Copy relays src until EndStream, or until either side fails. It reads
// nothing after EndStream.
func (r *Relay) Copy(src io.Reader) Result {
	chunk := chunks.Get().(*[]byte)
	defer chunks.Put(chunk)
	c := copying{Relay: r, src: src, chunk: *chunk, buf: *chunk}
	for c.step() {
	}
	return c.res
}

// copying is the state of one relay. buf[start:end] is what was read and not
// yet sent; buf[start] is always the first byte of a frame, unless torn is
// above zero: then it is inside a frame that is passed on as it comes, and
// torn is how much of that frame is still to come.
type copying struct {
	*Relay
	src        io.Reader
	chunk, buf []byte // buf is chunk, or longer while a long frame is held
	start, end int
	torn       int64
	res        Result
}

// step reads once and forwards what is whole. It reports whether to go on.
func (c *copying) step() bool {
	c.makeRoom()
	n, readErr := c.src.Read(c.buf[c.end:])
	c.end += n
	whole, stop := c.scan()
	if !c.forward(whole) {
		return false
	}
	if stop != nil {
		return c.finish(stop)
	}
	if readErr == nil {
		return true
	}
	if errors.Is(readErr, io.EOF) {
		readErr = ErrNoEndStream
	}
	c.res.ReadErr = readErr
	return false
}

// makeRoom leaves space behind end, moving a held frame to the front or
// growing the buffer up to MaxHeld.
func (c *copying) makeRoom() {
	if c.start == c.end {
		c.start, c.end = 0, 0
		c.buf = c.chunk // one long frame must not cost memory for ever
	}
	if c.end < len(c.buf) {
		return
	}
	if c.start > 0 {
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
		return
	}
	bigger := make([]byte, min(2*len(c.buf), c.MaxHeld+PrefixSize))
	c.end = copy(bigger, c.buf[:c.end])
	c.buf = bigger
}

// ending describes an EndStream frame that is whole in the buffer, or why the
// stream cannot go on.
type ending struct {
	frame []byte // the whole EndStream frame
	err   error
}

// scan finds how much of the buffer may be forwarded.
func (c *copying) scan() (whole int, stop *ending) {
	pos := c.start
	if c.torn > 0 {
		n := min(c.torn, int64(c.end-pos))
		pos += int(n)
		c.torn -= n
	}
	for c.torn == 0 && c.end-pos >= PrefixSize {
		flags := c.buf[pos]
		size := int64(binary.BigEndian.Uint32(c.buf[pos+1:])) + PrefixSize
		if err := c.allowed(flags); err != nil {
			return pos, &ending{err: err}
		}
		long := size > int64(c.MaxHeld)+PrefixSize
		if long && flags&FlagEndStream != 0 {
			return pos, &ending{err: fmt.Errorf("%w: EndStream of %d bytes", ErrInvalidFrame, size)}
		}
		have := int64(c.end - pos)
		if have >= size {
			frame := c.buf[pos : pos+int(size)]
			if flags&FlagEndStream != 0 {
				return pos, &ending{frame: frame}
			}
			c.lookAt(frame[PrefixSize:])
			c.res.Messages++
			pos += int(size)
			continue
		}
		if long {
			c.torn = size - have
			pos = c.end
			c.res.Messages++
		}
		break
	}
	return pos, nil
}

func (c *copying) allowed(flags byte) error {
	switch {
	case flags&^(FlagCompressed|FlagEndStream) != 0:
		return fmt.Errorf("%w: unknown flags %#02x", ErrInvalidFrame, flags)
	case flags&FlagCompressed != 0 && !c.Compressed:
		return fmt.Errorf("%w: compressed, although no compression was agreed on", ErrInvalidFrame)
	}
	return nil
}

func (c *copying) lookAt(payload []byte) {
	if c.Final != nil && len(payload) <= MaxFinal && c.Final(payload) {
		c.res.Final = true
	}
}

// forward sends the buffer up to pos.
func (c *copying) forward(pos int) bool {
	if pos == c.start {
		return true
	}
	if _, err := c.Dst.Write(c.buf[c.start:pos]); err != nil {
		c.res.WriteErr = err
		return false
	}
	c.start = pos
	c.res.Torn = c.torn > 0
	if err := c.Flush(); err != nil {
		c.res.WriteErr = err
		return false
	}
	return true
}

// finish sends EndStream, or notes why it cannot.
func (c *copying) finish(e *ending) bool {
	if e.err != nil {
		c.res.ReadErr = e.err
		return false
	}
	frame := e.frame
	if frame[0] == FlagEndStream {
		payload := frame[PrefixSize:]
		if !readable(payload) {
			c.res.ReadErr = fmt.Errorf("%w: the payload of EndStream is not what Connect says", ErrInvalidFrame)
			return false
		}
		if c.EndStream != nil {
			frame = Append(nil, FlagEndStream, c.EndStream(payload, c.res.Messages))
		}
	}
	if _, err := c.Dst.Write(frame); err != nil {
		c.res.WriteErr = err
		return false
	}
	c.res.Ended = true
	return false
}

// readable reports whether clients can read the payload of an EndStream: a JSON
// object whose error, if it has one, is an object too. Python's SDK raises a
// bare TypeError or JSONDecodeError for anything else.
func readable(payload []byte) bool {
	var end map[string]json.RawMessage
	if json.Unmarshal(payload, &end) != nil || end == nil {
		return false
	}
	failure, ok := end["error"]
	return !ok || failure[0] == '{'
}
