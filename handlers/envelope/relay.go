package envelope

import "io"

// Relay copies a stream frame by frame. A frame is forwarded when it is whole: a
// client cannot use half of one, so holding it costs no latency, and whenever
// the source fails the client is at a boundary where the end of the stream can
// follow.
//
// While the source is silent a relay holds next to no memory.
type Relay struct {
	// Dst is the client.
	Dst io.Writer
	// Flush sends what was written to Dst. It is called before every read of the
	// source that may have to wait, and not after the last frame.
	Flush func() error
	// Kind is the protocol. Default: Connect.
	Kind Kind
	// MaxHeld is the longest frame that is held, in bytes. A longer one is
	// passed on as it comes; when the source fails inside it, the cut cannot
	// be told in the protocol (see Result.Torn).
	MaxHeld int
	// Compressed allows compressed messages.
	Compressed bool
	// EndStream is given the payload of Connect's EndStream before it is sent,
	// and how many messages went before it, and returns the payload to send
	// instead. It is not called for a compressed one, which is passed on as it
	// is. Nil keeps every payload.
	EndStream func(payload []byte, messages int64) []byte
	// Classify tells what a message is. It is asked once about every message
	// of up to [MaxFinal] bytes that is not compressed, and must not keep it.
	// Nil: all are Other.
	Classify func(payload []byte) Class
	// OnFinal is called, once, when a Final message was delivered. Nil: nobody
	// is told.
	OnFinal func()
}

// Copy relays src until its last frame, or until either side fails. It reads
// nothing after the last frame.
func (r *Relay) Copy(src io.Reader) Result {
	f := newFrames(src, rules{r.Kind, r.Compressed, r.MaxHeld, r.EndStream, r.Classify, r.Flush})
	defer f.close()
	told := r.OnFinal == nil
	for {
		out, last := f.next()
		if out == nil {
			return f.res
		}
		if _, err := r.Dst.Write(out); err != nil {
			f.res.WriteErr = err
			return f.res
		}
		f.unflushed = !last // the end of the answer does it
		if f.res.Final && !told {
			told = true
			r.OnFinal()
		}
		if last {
			f.res.Ended, f.res.Torn = true, false
			return f.res
		}
	}
}
