package envelope

import (
	"bytes"
	"encoding/base64"
	"io"
	"strings"
	"testing"
)

// endless sends the same piece for ever, without an allocation of its own.
type endless struct {
	piece []byte
	pos   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.piece[e.pos:])
	e.pos = (e.pos + n) % len(e.piece)
	return n, nil
}

// pieces are what a source may send for hours.
func pieces() map[string][]byte {
	return map[string][]byte{
		"1 KiB messages":   join(message(strings.Repeat("x", 1024)), message("alive")),
		"40 byte messages": message(strings.Repeat("x", 35)),
	}
}

// Under the race detector pools forget things, so the bounds are not 0.
func TestRelayingAllocatesNothing(t *testing.T) {
	for name, piece := range pieces() {
		for kind := Connect; kind <= GRPCWebText; kind++ {
			if kind == GRPCWebText {
				piece = []byte(base64.StdEncoding.EncodeToString(piece))
			}
			asked := 0
			f := newFrames(&endless{piece: piece}, rules{
				kind: kind, maxHeld: 1 << 20,
				classify: func(p []byte) Class { asked++; return Other },
			})
			const batches = 1000
			n := testing.AllocsPerRun(1, func() {
				for range batches {
					if out, _ := f.next(); out == nil {
						t.Fatal(f.res)
					}
				}
			})
			bound := batches * 3 / 4
			if kind == GRPCWebText { // takes a pooled chunk for each message too
				bound += asked / 2
			}
			if n > float64(bound) || asked < batches {
				t.Errorf("%s, kind %d: %v allocations for %d batches of %d messages", name, kind, n, batches, asked)
			}
		}
	}
}

func TestCopyingAPlainBodyAllocatesNothing(t *testing.T) {
	const pieces = 1000
	src := &endless{piece: bytes.Repeat([]byte("x"), 3000)}
	copied := func(limit int64) float64 {
		return testing.AllocsPerRun(10, func() {
			_, _ = CopyPlain(io.Discard, func() error { return nil }, io.LimitReader(src, limit))
		})
	}
	if extra := copied(pieces*3000) - copied(10); extra > pieces/2 {
		t.Errorf("%v allocations for %d pieces", extra, pieces)
	}
}
