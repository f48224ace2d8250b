package websocket

import "sync"

// A connection that is idle needs little room; one that is busy gets a large
// buffer for as long as it fills more than the little.
const (
	littleRoom = 512
	largeRoom  = 32 << 10
)

var largeRooms = sync.Pool{New: func() any { b := make([]byte, largeRoom); return &b }}

// room is the buffer of one direction.
type room struct {
	little [littleRoom]byte
	large  *[]byte
}

// next is where to read to.
func (r *room) next() []byte {
	if r.large != nil {
		return *r.large
	}
	return r.little[:]
}

// got is what was read, n bytes of next. It is valid until next is called, and
// decides what next returns then.
func (r *room) got(n int) []byte {
	switch b := r.next()[:n]; {
	case r.large == nil && n == littleRoom:
		r.large = largeRooms.Get().(*[]byte)
		return b
	case r.large != nil && n <= littleRoom:
		n = copy(r.little[:], b)
		r.free()
		return r.little[:n]
	default:
		return b
	}
}

func (r *room) free() {
	if r.large != nil {
		largeRooms.Put(r.large)
		r.large = nil
	}
}
