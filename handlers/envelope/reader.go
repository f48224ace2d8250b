package envelope

import "io"

// Reader is Relay for those who read: the body of a response that yields whole
// frames only, and ends well although its source did not.
//
// It is not safe for concurrent use, but for Close.
type Reader struct {
	// Src is the body to read.
	Src io.ReadCloser
	// Kind, MaxHeld, Compressed, EndStream and Classify are those of
	// [Relay].
	Kind       Kind
	MaxHeld    int
	Compressed bool
	EndStream  func(payload []byte, messages int64) []byte
	Classify   func(payload []byte) Class
	// Last is asked, once, when the source failed between two frames: what it
	// returns ends the body in place of the failure. With nil the body fails
	// as the source did. It is not asked when the cut is inside a frame of
	// which a part was read already, and not for GRPC, whose end is not in the
	// body.
	Last func(Result) []byte
	// OnFinal is called, once, when a Final message was handed out. Nil:
	// nobody is told.
	OnFinal func()

	told   bool // OnFinal was called
	frames *frames
	out    []byte
	err    error // after out
}

// Read implements io.Reader. After the last frame it returns io.EOF without
// reading on, and otherwise the error of the source.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.next()
	}
	n := copy(p, r.out)
	if r.out = r.out[n:]; len(r.out) > 0 {
		return n, nil
	}
	if r.frames.res.Final && !r.told && r.OnFinal != nil {
		r.told = true
		r.OnFinal()
	}
	if r.err != nil {
		r.frames.close()
	}
	return n, r.err
}

// next sets out, or err, or both.
func (r *Reader) next() {
	if r.frames == nil {
		r.frames = newFrames(r.Src, rules{r.Kind, r.Compressed, r.MaxHeld, r.EndStream, r.Classify, nil})
	}
	out, last := r.frames.next()
	switch res := r.frames.res; {
	case last:
		r.out, r.err = out, io.EOF
	case out != nil:
		r.out = out
	case res.Torn || r.Kind == GRPC || r.Last == nil:
		r.err = res.ReadErr
	default:
		if r.out = r.Last(res); r.out == nil {
			r.err = res.ReadErr
		} else {
			r.err = io.EOF
		}
	}
}

// Close closes the source.
func (r *Reader) Close() error { return r.Src.Close() }
