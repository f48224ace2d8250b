package envelope

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll reads a body to its end in pieces of a size.
func readAll(r *Reader, piece int) (string, error) {
	var got bytes.Buffer
	_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{r}, make([]byte, piece))
	return got.String(), err
}

func TestAReaderYieldsWholeFramesAndAnEnd(t *testing.T) {
	whole := join(message("one"), message(strings.Repeat("x", 60)))
	long := message(strings.Repeat("y", 100))
	for name, tc := range map[string]struct {
		src     []byte
		failure error
		want    []byte
		err     error
		asked   bool
	}{
		"a good end":               {join(whole, end("{}")), nil, join(whole, end("{}")), nil, false},
		"a reset after it":         {join(whole, end("{}")), errReset, join(whole, end("{}")), nil, false},
		"more after it":            {join(whole, end("{}"), end("{}"), whole), nil, join(whole, end("{}")), nil, false},
		"a reset between frames":   {whole, errReset, join(whole, []byte("LAST")), nil, true},
		"a reset inside a frame":   {join(whole, message("three")[:6]), errReset, join(whole, []byte("LAST")), nil, true},
		"an end between frames":    {whole, nil, join(whole, []byte("LAST")), nil, true},
		"nothing":                  {nil, nil, []byte("LAST"), nil, true},
		"a frame nobody can read":  {join(whole, Append(nil, 4, nil)), nil, join(whole, []byte("LAST")), nil, true},
		"a reset in a long frame":  {join(whole, long[:80]), errReset, join(whole, long[:80]), errReset, false},
		"an end in a long frame":   {join(whole, long[:80]), nil, join(whole, long[:80]), ErrNoEndStream, false},
		"a reset after a long one": {join(whole, long), errReset, join(whole, long, []byte("LAST")), nil, true},
	} {
		for _, piece := range []int{1, 7, 4096} {
			src := io.Reader(bytes.NewReader(tc.src))
			if tc.failure != nil {
				src = thenReset(tc.src)
			}
			asked := 0
			r := &Reader{Src: io.NopCloser(iotest.HalfReader(src)), MaxHeld: 64, Last: func(Result) []byte { asked++; return []byte("LAST") }}
			got, err := readAll(r, piece)
			if got != string(tc.want) || !errors.Is(err, tc.err) || (asked == 1) != tc.asked || asked > 1 {
				t.Errorf("%s, %d at a time: %q, %v, asked %d times", name, piece, got, err, asked)
			}
			if n, again := r.Read(make([]byte, 1)); n != 0 || again == nil || tc.err == nil && again != io.EOF {
				t.Errorf("%s: then %d, %v", name, n, again)
			}
		}
	}
}

func TestAReaderFailsAsItsSourceDoesWhenNobodyKnowsAnEnd(t *testing.T) {
	for name, last := range map[string]func(Result) []byte{"no callback": nil, "no bytes": func(Result) []byte { return nil }} {
		r := &Reader{Src: io.NopCloser(thenReset(message("one"))), MaxHeld: 64, Last: last}
		if got, err := readAll(r, 100); got != string(message("one")) || !errors.Is(err, errReset) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestAReaderTellsWhatItHasSeen(t *testing.T) {
	var seen Result
	r := &Reader{Src: io.NopCloser(thenReset(join(message("one"), message("two")))), MaxHeld: 64,
		Classify: func(p []byte) Class {
			if string(p) == "two" {
				return Final
			}
			return Other
		},
		Last: func(res Result) []byte { seen = res; return []byte("x") }}
	if _, err := readAll(r, 100); err != nil || !seen.Final || seen.Messages != 2 || !errors.Is(seen.ReadErr, errReset) {
		t.Fatalf("%+v, %v", seen, err)
	}
}

func TestAReaderLeavesTheEndOfGRPCToTheTrailers(t *testing.T) {
	asked := func(Result) []byte { t.Error("asked"); return nil }
	r := &Reader{Src: io.NopCloser(bytes.NewReader(message("one"))), Kind: GRPC, MaxHeld: 64, Last: asked}
	if got, err := readAll(r, 100); got != string(message("one")) || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	r = &Reader{Src: io.NopCloser(thenReset(message("one"))), Kind: GRPC, MaxHeld: 64, Last: asked}
	if _, err := readAll(r, 100); !errors.Is(err, errReset) {
		t.Fatal(err)
	}
}

func TestAReaderReturnsAFrameBeforeItReadsOn(t *testing.T) {
	frames := [][]byte{message("one"), message("two"), end("{}")}
	read, taken := 0, 0
	r := &Reader{MaxHeld: 64, Src: io.NopCloser(readerFunc(func(p []byte) (int, error) {
		if taken != read {
			t.Fatalf("read frame %d with %d taken", read, taken)
		}
		read++
		return copy(p, frames[read-1]), nil
	}))}
	p := make([]byte, 100)
	for ; ; taken++ {
		n, err := r.Read(p)
		if n > 0 && string(p[:n]) != string(frames[taken]) {
			t.Fatalf("%q", p[:n])
		}
		if err != nil {
			if err != io.EOF || taken != 2 {
				t.Fatal(taken, err)
			}
			return
		}
	}
}

// Whoever hears of it may end the source, so the message must be out by then.
func TestAReaderTellsOnceWhenItHasHandedOutAFinalMessage(t *testing.T) {
	whole := join(message("one"), message("two"), message("three"))
	for _, piece := range []int{1, 7, 4096} {
		var got []byte
		told := []int{}
		r := &Reader{Src: io.NopCloser(bytes.NewReader(join(whole, end("{}")))), MaxHeld: 64,
			Classify: func(p []byte) Class {
				if string(p) == "two" {
					return Final
				}
				return Other
			}}
		r.OnFinal = func() { told = append(told, len(got)) }
		p := make([]byte, piece)
		for err := error(nil); err == nil; {
			var n int
			n, err = r.Read(p)
			got = append(got, p[:n]...)
		}
		// It is told by the read that returns the message's last bytes.
		if least := len(whole) - len(message("three")) - piece; string(got) != string(join(whole, end("{}"))) || len(told) != 1 || told[0] < least {
			t.Errorf("%d at a time: %q, told at %v", piece, got, told)
		}
	}
}
