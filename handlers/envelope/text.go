package envelope

import (
	"encoding/base64"
	"fmt"
)

// text follows the frames of a body of application/grpc-web-text, which is
// base64. Four characters, a quantum, hold three bytes; the last quantum of a
// run may be filled up with "=", and another run may follow: servers encode each
// piece that they flush by itself. So a frame and a quantum need not end
// together, and only where they do another frame can be put in.
type text struct {
	scanner
	quantum [4]byte
	chars   int   // characters of the quantum that were seen
	err     error // of the frame that begins in the quantum that ends another
	// collected is the payload of the frame under way, decoded: a pooled chunk,
	// nil between frames. Messages are collected for whoever classifies them.
	collect   bool
	collected *[]byte
	n         int
	readable  bool // what was collected is a whole message
}

// scan follows b to the end of the quantum in which a frame ends.
func (t *text) scan(b []byte) (n int, what event, err error) {
	if t.err != nil {
		return 0, nothing, t.err
	}
	for n < len(b) {
		t.quantum[t.chars] = b[n]
		n++
		if t.chars++; t.chars == len(t.quantum) {
			t.chars = 0
			if what, err := t.decode(); what != nothing || err != nil {
				return n, what, err
			}
		}
	}
	return n, nothing, nil
}

// decode follows the frames through a whole quantum.
func (t *text) decode() (event, error) {
	var b [3]byte
	size, err := base64.StdEncoding.Decode(b[:], t.quantum[:])
	if err != nil {
		return nothing, fmt.Errorf("%w: no base64: %w", ErrInvalidFrame, err)
	}
	n, what, err := t.follow(b[:size])
	switch {
	case err != nil || n == size:
	case what == streamEnd:
		base64.StdEncoding.Encode(t.quantum[:], b[:n]) // see rewrite
	default:
		// No frame is so short that another could end in this quantum.
		_, _, t.err = t.follow(b[n:size])
	}
	return what, err
}

// follow scans decoded bytes and collects what is payload.
func (t *text) follow(b []byte) (n int, what event, err error) {
	prefix := PrefixSize - t.seen
	n, what, err = t.scanner.scan(b)
	if (t.collect || t.last()) && err == nil && n > prefix && t.size <= MaxFinal {
		if t.collected == nil {
			t.collected = chunks.Get().(*[]byte)
			t.n = 0
		}
		t.n += copy((*t.collected)[t.n:], b[prefix:n])
	}
	if what != nothing {
		t.readable = t.prefix[0]&FlagCompressed == 0 && t.size <= MaxFinal
	}
	return n, what, err
}

func (t *text) boundary() bool { return t.chars == 0 && t.err == nil && t.scanner.boundary() }

// payload is the decoded payload of the message that has just ended.
func (t *text) payload([]byte) ([]byte, bool) {
	switch {
	case !t.readable:
		return nil, false
	case t.collected == nil:
		return nil, true
	default:
		return (*t.collected)[:t.n], true
	}
}

// rewrite takes away what is behind the last frame in its last quantum. raw ends
// with that quantum, or with as much of it as is not sent yet.
func (t *text) rewrite(raw []byte) {
	quantum := t.quantum[:]
	if len(raw) < len(quantum) {
		quantum = quantum[len(quantum)-len(raw):]
	}
	copy(raw[len(raw)-len(quantum):], quantum)
}

// release gives back what was collected.
func (t *text) release() {
	if t.collected != nil {
		chunks.Put(t.collected)
		t.collected = nil
	}
}
