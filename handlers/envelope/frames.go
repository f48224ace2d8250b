package envelope

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Class is what a message means to whoever relays it.
type Class uint8

const (
	// Other is every message that is neither of the following.
	Other Class = iota
	// Keepalive only says that the source is alive.
	Keepalive
	// Final says all that there is to say: nothing but the end of the stream is
	// missing after it.
	Final
)

// MaxFinal is the longest message that is classified, in bytes: what a process
// says when it exits is short.
const MaxFinal = 32 << 10

// ErrNoEndStream ends a stream whose source ended, politely, without the last
// frame.
var ErrNoEndStream = errors.New("the stream ended without EndStream")

// Result is how a stream ended.
type Result struct {
	// Ended: the last frame was delivered. Everything is well, whatever the
	// source did afterwards. Never true for GRPC.
	Ended bool
	// Messages counts the whole messages that were delivered.
	Messages int64
	// Final: a message of that class was delivered whole.
	Final bool
	// Torn: part of a frame was delivered. Nothing may follow it.
	Torn bool
	// ReadErr is why the source ended before the last frame, and nil if it did
	// not. It is io.EOF when a GRPC source ended between two frames, which is
	// how it should; its trailers say the rest.
	ReadErr error
	// WriteErr is why the client could not be written to.
	WriteErr error
}

// rules are what a stream may look like and what is done with it.
type rules struct {
	kind       Kind
	compressed bool
	maxHeld    int
	endStream  func(payload []byte, messages int64) []byte
	classify   func(payload []byte) Class
	flush      func() error // nil for who flushes nothing
}

// follower knows where a body is in a frame: scanner, and text around it.
type follower interface {
	scan(b []byte) (n int, what event, err error)
	boundary() bool
	long() bool
	payload(held []byte) (payload []byte, ok bool)
}

// frames takes whole frames out of a source. Of its buffer, b[start:safe] may
// be passed on, b[safe:pos] is held until its frame is whole.
type frames struct {
	rules
	src       io.Reader
	ahead     Ahead // src, if it is one
	follow    follower
	text      *text // follow, for GRPCWebText
	most      int   // bytes held at most
	buffer    buffer
	wait      [waitSize]byte // the buffer's
	safe, pos int
	open      bool  // safe is inside a frame
	ended     bool  // b[safe:pos] is the last frame
	over      bool  // nothing more is read
	unflushed bool  // something was written and not flushed
	err       error // why, when it is not for the last frame
	scanned   struct {
		messages int64
		final    bool
	} // what of Result holds once safe has reached pos
	res Result
}

func newFrames(src io.Reader, r rules) *frames {
	f := &frames{rules: r, src: src, most: r.maxHeld + PrefixSize}
	f.ahead, _ = src.(Ahead)
	f.buffer.wait = f.wait[:]
	s := scanner{kind: r.kind, compressed: r.compressed, max: int64(r.maxHeld)}
	if r.kind == GRPCWebText {
		f.text = &text{scanner: s, collect: r.classify != nil}
		f.follow = f.text
		f.most = (f.most + 2) / 3 * 4
	} else {
		f.follow = &s
	}
	return f
}

// next returns the next bytes to pass on, which are whole frames, or part of
// one that is too long to be held. They are valid until the next call. last
// says that they are the last frame. When there are none left, out is nil and
// res says why.
func (f *frames) next() (out []byte, last bool) {
	for {
		b := &f.buffer
		switch {
		case f.safe > b.start:
			out = b.b[b.start:f.safe]
			b.start = f.safe
			f.res.Torn = f.open
			return out, false
		case f.ended:
			f.ended = false
			if out = f.lastFrame(); out != nil {
				return out, true
			}
		case f.over:
			if f.flushed() {
				f.res.ReadErr = f.err
			}
			f.close()
			return nil, false
		case f.unflushed && mayWait(f.ahead) && !f.flushed():
			return nil, false
		default:
			f.read()
		}
	}
}

// flushed flushes what was written. It reports false when that fails.
func (f *frames) flushed() bool {
	if f.unflushed {
		f.unflushed = false
		f.res.WriteErr = f.flush()
	}
	return f.res.WriteErr == nil
}

// read reads once and finds what may be passed on.
func (f *frames) read() {
	f.safe -= f.buffer.start
	f.pos -= f.buffer.start
	n, err := f.buffer.fill(f.src, f.most)
	if err == nil {
		var more int
		more, err = f.buffer.fillReady(f.src, f.ahead)
		n += more
	}
	f.safe += f.buffer.start
	f.pos += f.buffer.start
	if f.scan(); !f.over && err != nil {
		f.over = true
		f.err = f.sourceEnded(err)
	}
}

func (f *frames) sourceEnded(err error) error {
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case f.kind != GRPC:
		return ErrNoEndStream
	case f.follow.boundary():
		return io.EOF
	default:
		return fmt.Errorf("%w: %w", ErrNoEndStream, io.ErrUnexpectedEOF)
	}
}

// scan follows the frames in what was read.
func (f *frames) scan() {
	b := &f.buffer
	for f.pos < b.end {
		n, what, err := f.follow.scan(b.b[f.pos:b.end])
		f.pos += n
		switch {
		case err != nil:
			f.err = err
			f.over = true
			return
		case what == messageEnd:
			f.scanned.messages++
			f.lookAt()
		case what == streamEnd:
			f.ended, f.over = true, true
			return
		}
		if f.follow.boundary() {
			f.passOn(whole)
		}
	}
	if f.safe < f.pos && (f.open || f.follow.long() || f.pos-f.safe >= f.most) {
		f.passOn(part)
	}
}

// extent tells whole frames from a part of one.
type extent bool

const (
	whole extent = false
	part  extent = true
)

// passOn allows what was scanned to be passed on.
func (f *frames) passOn(e extent) {
	f.safe, f.open = f.pos, bool(e)
	f.res.Messages, f.res.Final = f.scanned.messages, f.scanned.final
}

// lookAt classifies the message that has just ended.
func (f *frames) lookAt() {
	if f.classify == nil {
		return
	}
	payload, ok := f.follow.payload(f.buffer.b[:f.pos])
	if ok && len(payload) <= MaxFinal && f.classify(payload) == Final {
		f.scanned.final = true
	}
	if f.text != nil {
		f.text.release()
	}
}

// lastFrame is what is passed on of the last frame, nil if clients cannot read
// it.
func (f *frames) lastFrame() []byte {
	frame := f.buffer.b[f.safe:f.pos]
	f.passOn(whole)
	f.buffer.start = f.pos
	payload, ok := f.follow.payload(frame)
	switch {
	case ok && f.kind == Connect && !readable(payload):
		f.err = fmt.Errorf("%w: the payload of EndStream is not what Connect says", ErrInvalidFrame)
		return nil
	case ok && f.kind != Connect && !hasStatus(payload):
		f.err = fmt.Errorf("%w: trailers without grpc-status", ErrInvalidFrame)
		return nil
	case ok && f.kind == Connect && f.endStream != nil:
		return Append(nil, FlagEndStream, f.endStream(payload, f.res.Messages))
	case f.text != nil:
		f.text.rewrite(frame)
	}
	return frame
}

// close gives back what is pooled.
func (f *frames) close() {
	f.buffer.drop()
	f.safe, f.pos = 0, 0
	if f.text != nil {
		f.text.release()
	}
}

// readable reports whether clients can read the payload of an EndStream: a JSON
// object in UTF-8 whose error, if it has one, is an object too, with a code and
// a message as in Connect, or with a status as the code. Python's SDK raises a
// bare TypeError, JSONDecodeError or UnicodeDecodeError for anything else.
func readable(payload []byte) bool {
	var end map[string]json.RawMessage
	if !utf8.Valid(payload) || json.Unmarshal(payload, &end) != nil || end == nil {
		return false
	}
	failure, ok := end["error"]
	if !ok {
		return true
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(failure, &members) != nil || members == nil {
		return false
	}
	return isOneOf(members["message"], `"`) && isOneOf(members["code"], `"-0123456789`)
}

// isOneOf reports a member of a JSON object that is absent, or null, or begins
// with one of the given bytes.
func isOneOf(value json.RawMessage, first string) bool {
	return len(value) == 0 || string(value) == "null" || strings.IndexByte(first, value[0]) >= 0
}

// hasStatus reports whether trailers tell how the call ended. They are lines as
// in a head of HTTP/1.1, without the empty one at the end (gRPC-Web, "HTTP
// Trailers"). Some clients do not ask for the end of the last line either.
func hasStatus(trailers []byte) bool {
	r := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(trailers), strings.NewReader("\r\n\r\n"))))
	header, err := r.ReadMIMEHeader()
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(header.Get("Grpc-Status"), 10, 32)
	return err == nil
}
