package envelope

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestWaitingHoldsNoChunk: 10,000 streams that wait must not hold 32 KiB each.
func TestWaitingHoldsNoChunk(t *testing.T) {
	sent := [][]byte{
		message("short"),
		message(strings.Repeat("x", 3000)),
		bytes.Repeat(message(strings.Repeat("y", 100)), 50),
		message(strings.Repeat("z", 100_000)),
	}
	var rest []byte
	waits := 0
	src := readerFunc(func(p []byte) (int, error) {
		if len(rest) == 0 {
			if len(p) != waitSize {
				t.Errorf("waits with %d bytes", len(p))
			}
			if waits == len(sent) {
				return 0, errReset
			}
			rest = sent[waits]
			waits++
		}
		n := copy(p, rest)
		rest = rest[n:]
		return n, nil
	})
	var dst bytes.Buffer
	r := Relay{Dst: &dst, Flush: func() error { return nil }, MaxHeld: 1 << 20}
	if r.Copy(src); dst.String() != string(join(sent...)) {
		t.Fatalf("%d bytes arrived", dst.Len())
	}
}

// TestABurstOfLargeMessagesCostsOneWrite: the small buffer must not cut a batch in two.
func TestABurstOfLargeMessagesCostsOneWrite(t *testing.T) {
	burst := bytes.Repeat(message(strings.Repeat("x", 1024)), 20)
	writes := 0
	r := Relay{Dst: writerFunc(func(p []byte) (int, error) { writes++; return len(p), nil }), Flush: func() error { return nil }, MaxHeld: 1 << 20}
	r.Copy(thenReset(burst))
	if writes != 1 {
		t.Fatalf("%d writes", writes)
	}
}

func TestAPlainBodyArrivesPieceByPiece(t *testing.T) {
	pieces := []string{"a", strings.Repeat("b", plainWaitSize), strings.Repeat("c", 5000), "d", strings.Repeat("e", 40_000), "f"}
	var rest, want string
	flushed, next := 0, 0
	var dst bytes.Buffer
	src := readerFunc(func(p []byte) (int, error) {
		if flushed != dst.Len() {
			t.Fatalf("read with %d of %d bytes flushed", flushed, dst.Len())
		}
		if rest == "" {
			if next == len(pieces) {
				return 0, io.EOF
			}
			rest = pieces[next]
			want += rest
			next++
		}
		n := copy(p, rest)
		rest = rest[n:]
		return n, nil
	})
	readErr, writeErr := CopyPlain(&dst, func() error { flushed = dst.Len(); return nil }, src)
	if readErr != nil || writeErr != nil || dst.String() != want {
		t.Fatalf("%v, %v, %d of %d bytes", readErr, writeErr, dst.Len(), len(want))
	}
}

func TestAPlainBodyThatBreaksSaysWhichSideDid(t *testing.T) {
	flush := func() error { return nil }
	if readErr, writeErr := CopyPlain(io.Discard, flush, thenReset([]byte("x"))); readErr != errReset || writeErr != nil {
		t.Error(readErr, writeErr)
	}
	full := writerFunc(func([]byte) (int, error) { return 0, errReset })
	if readErr, writeErr := CopyPlain(full, nil, strings.NewReader("x")); readErr != nil || writeErr != errReset {
		t.Error(readErr, writeErr)
	}
}

// TestAPlainBodyWaitsInASmallBuffer: server-sent events are short and rare.
func TestAPlainBodyWaitsInASmallBuffer(t *testing.T) {
	events := 0
	src := readerFunc(func(p []byte) (int, error) {
		if len(p) != plainWaitSize {
			t.Errorf("waits for event %d with %d bytes", events, len(p))
		}
		if events++; events > 5 {
			return 0, io.EOF
		}
		return copy(p, "data: x\n\n"), nil
	})
	_, _ = CopyPlain(io.Discard, func() error { return nil }, src)
}

// ready is a source that knows what it has.
type ready struct {
	pieces [][]byte
	reads  int
}

func (r *ready) Ready() (n int) {
	for _, p := range r.pieces {
		n += len(p)
	}
	return n
}

func (r *ready) Read(p []byte) (int, error) {
	r.reads++
	if len(r.pieces) == 0 {
		return 0, errReset
	}
	n := copy(p, r.pieces[0])
	if r.pieces[0] = r.pieces[0][n:]; len(r.pieces[0]) == 0 {
		r.pieces = r.pieces[1:]
	}
	return n, nil
}

func TestWhatIsReadyIsOneBatch(t *testing.T) {
	src := &ready{}
	for range 200 {
		src.pieces = append(src.pieces, message(strings.Repeat("x", 95)))
	}
	all := bytes.Join(src.pieces, nil)
	var dst bytes.Buffer
	writes := 0
	r := Relay{Dst: writerFunc(func(p []byte) (int, error) {
		writes++
		return dst.Write(p)
	}), Flush: func() error { return nil }, MaxHeld: 64 << 10}
	if res := r.Copy(src); !bytes.Equal(dst.Bytes(), all) || writes != 1 || res.Messages != 200 {
		t.Fatalf("%d writes of %d bytes, %+v", writes, dst.Len(), res)
	}
}

func TestWhatIsReadyOfAPlainBodyIsOneBatch(t *testing.T) {
	src := &ready{}
	for range 200 {
		src.pieces = append(src.pieces, []byte("data: 0123456789\n\n"))
	}
	all := bytes.Join(src.pieces, nil)
	var dst bytes.Buffer
	flushes := 0
	if readErr, _ := CopyPlain(&dst, func() error { flushes++; return nil }, src); readErr != errReset || !bytes.Equal(dst.Bytes(), all) || flushes > 5 {
		t.Fatalf("%v, %d flushes of %d bytes", readErr, flushes, dst.Len())
	}
}

// Less than the frame of an HTTP chunk may be all that has come for a while.
func TestABatchDoesNotWaitForTheRestOfAChunk(t *testing.T) {
	src := &ready{pieces: [][]byte{message("one"), bytes.Repeat([]byte{0}, Enough-1)}}
	r := Relay{Dst: writerFunc(func(p []byte) (int, error) {
		if src.reads != 1 {
			t.Errorf("%d reads before the first message is sent", src.reads)
		}
		return 0, errReset
	}), Flush: func() error { return nil }, MaxHeld: 64}
	r.Copy(src)
}
