package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is a protocol whose bodies are made of frames. It decides which flags
// may occur and which frame is the last.
type Kind uint8

const (
	// Connect ends with the frame that has flag 0x02.
	Connect Kind = iota
	// GRPC has no last frame: it ends with the trailers of HTTP.
	GRPC
	// GRPCWeb ends with the frame that has flag 0x80 and holds the trailers.
	GRPCWeb
	// GRPCWebText is GRPCWeb in base64. The bytes are passed on as they are;
	// they are decoded beside that, to know where they are in a frame.
	GRPCWebText
)

// endFlag is the flag of the last frame, 0 for none.
func (k Kind) endFlag() byte {
	switch k {
	case Connect:
		return FlagEndStream
	case GRPCWeb, GRPCWebText:
		return FlagGRPCWebTrailers
	default:
		return 0
	}
}

// ErrInvalidFrame is wrapped by the error of a source that sent a frame that
// the client could not read: an unknown flag, a compressed message nobody asked
// for, a last frame that is no such thing.
var ErrInvalidFrame = errors.New("frame not allowed")

// scanner follows the frames of a body. It keeps no byte of a payload, and its
// state is exact after any byte, however the body is split.
type scanner struct {
	kind       Kind
	compressed bool  // compressed frames are allowed
	max        int64 // the longest payload that is held

	prefix [PrefixSize]byte
	seen   int   // bytes of the prefix that were seen
	left   int64 // bytes of the payload that are still to come
	size   int64 // length of the payload of this frame, or of the last
}

// event is what the bytes that were scanned have completed.
type event uint8

const (
	nothing    event = iota
	messageEnd       // a frame that is not the last
	streamEnd        // the last frame
)

// scan follows b to the end of a frame, or to its own end, and returns how much
// of b that was.
func (s *scanner) scan(b []byte) (n int, what event, err error) {
	if s.seen < PrefixSize {
		if s.seen == 0 && len(b) > 0 {
			if err := s.allowed(b[0]); err != nil {
				return 0, nothing, err
			}
		}
		n = copy(s.prefix[s.seen:], b)
		if s.seen += n; s.seen < PrefixSize {
			return n, nothing, nil
		}
		s.size = int64(binary.BigEndian.Uint32(s.prefix[1:]))
		s.left = s.size
		if s.last() && s.size > s.max {
			return n, nothing, fmt.Errorf("%w: the last frame announces %d bytes", ErrInvalidFrame, s.size)
		}
	}
	payload := min(s.left, int64(len(b)-n))
	n += int(payload)
	if s.left -= payload; s.left > 0 {
		return n, nothing, nil
	}
	s.seen = 0
	if s.last() {
		return n, streamEnd, nil
	}
	return n, messageEnd, nil
}

// boundary reports that the next byte begins a frame, so that another could be
// put in here.
func (s *scanner) boundary() bool { return s.seen == 0 }

// long reports that the frame under way is longer than is held.
func (s *scanner) long() bool { return s.seen == PrefixSize && s.size > s.max }

// last reports that the frame of the prefix is the last.
func (s *scanner) last() bool { return s.prefix[0]&s.kind.endFlag() != 0 }

// payload is the payload of the frame that ends at the end of held, if it can be
// read: it is not compressed, and was held.
func (s *scanner) payload(held []byte) ([]byte, bool) {
	if s.prefix[0]&FlagCompressed != 0 || s.size > s.max {
		return nil, false
	}
	return held[len(held)-int(s.size):], true
}

func (s *scanner) allowed(flags byte) error {
	switch {
	case flags&^(FlagCompressed|s.kind.endFlag()) != 0:
		return fmt.Errorf("%w: unknown flags %#02x", ErrInvalidFrame, flags)
	case flags&FlagCompressed != 0 && !s.compressed:
		return fmt.Errorf("%w: compressed, although no compression was agreed on", ErrInvalidFrame)
	}
	return nil
}
