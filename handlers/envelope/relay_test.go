package envelope

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func message(s string) []byte { return Append(nil, 0, []byte(s)) }
func end(s string) []byte     { return Append(nil, FlagEndStream, []byte(s)) }

func join(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

var errReset = errors.New("reset")

// thenReset is b followed by a reset.
func thenReset(b []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(b), iotest.ErrReader(errReset))
}

func relay(src io.Reader, change func(*Relay)) (string, Result) {
	var dst bytes.Buffer
	r := Relay{Dst: &dst, Flush: func() error { return nil }, MaxHeld: 64, Classify: func(p []byte) Class {
		switch string(p) {
		case "two", "after":
			return Final
		case "alive":
			return Keepalive
		}
		return Other
	}}
	if change != nil {
		change(&r)
	}
	res := r.Copy(src)
	return dst.String(), res
}

// Contract checklist 37 and 47, field report A17.
func TestAWholeStreamPassesUnchangedHoweverItIsSplit(t *testing.T) {
	stream := join(message("one"), message(""), message(strings.Repeat("x", 64)), message(strings.Repeat("y", 65)), end(`{}`))
	for name, src := range map[string]io.Reader{
		"in one piece":      bytes.NewReader(stream),
		"byte by byte":      iotest.OneByteReader(bytes.NewReader(stream)),
		"in halves":         iotest.HalfReader(bytes.NewReader(stream)),
		"error with data":   iotest.DataErrReader(bytes.NewReader(stream)),
		"then a reset":      thenReset(stream),
		"then more garbage": io.MultiReader(bytes.NewReader(stream), strings.NewReader("garbage")),
	} {
		t.Run(name, func(t *testing.T) {
			got, res := relay(src, nil)
			if got != string(stream) || !res.Ended || res.Messages != 4 || res.ReadErr != nil {
				t.Fatalf("%q, %+v", got, res)
			}
		})
	}
}

// Contract checklist 42 to 44, field reports A03 and A05.
func TestACutLeavesTheClientAtABoundary(t *testing.T) {
	whole := join(message("one"), message("two"))
	for cut := range len(message("three")) {
		part := message("three")[:cut]
		for _, src := range []io.Reader{thenReset(join(whole, part)), bytes.NewReader(join(whole, part))} {
			got, res := relay(src, nil)
			if got != string(whole) || res.Ended || res.Torn || res.ReadErr == nil || !res.Final {
				t.Fatalf("cut %d: %q, %+v", cut, got, res)
			}
		}
	}
	if _, res := relay(bytes.NewReader(whole), nil); !errors.Is(res.ReadErr, ErrNoEndStream) {
		t.Fatalf("%+v", res)
	}
	if _, res := relay(thenReset(whole), nil); !errors.Is(res.ReadErr, errReset) {
		t.Fatalf("%+v", res)
	}
}

// Contract checklist 54, field report A18: a lie about the length costs no memory.
func TestAFrameLongerThanIsHeldStreamsAndACutInsideItIsTorn(t *testing.T) {
	huge := binary.BigEndian.AppendUint32([]byte{0}, 0xffffffff)
	got, res := relay(thenReset(join(message("one"), huge, []byte("some"))), nil)
	if got != string(join(message("one"), huge, []byte("some"))) || !res.Torn || res.Ended || res.Final {
		t.Fatalf("%q, %+v", got, res)
	}
	whole := join(message(strings.Repeat("z", 100)), message("after"))
	got, res = relay(iotest.OneByteReader(thenReset(whole)), nil)
	if got != string(whole) || res.Torn || !res.Final {
		t.Fatalf("%q, %+v", got, res)
	}
}

// Contract checklist 53.
func TestFramesTheClientCannotReadEndTheStream(t *testing.T) {
	for name, frame := range map[string][]byte{
		"compressed":           Append(nil, 1, []byte("z")),
		"unknown flag":         Append(nil, 4, []byte("z")),
		"grpc-web trailers":    Append(nil, 0x80, []byte("z")),
		"compressed EndStream": Append(nil, 3, []byte("z")),
		"huge EndStream":       {2, 0xff, 0xff, 0xff, 0xff},
		"EndStream of nothing": end(""),
		"EndStream of null":    end("null"),
		"EndStream of a list":  end("[]"),
		"EndStream of text":    end("<html>"),
		"error of null":        end(`{"error":null}`),
		"error of text":        end(`{"error":"x"}`),
		"no UTF-8":             end("{\"error\":{\"code\":\"internal\",\"message\":\"\xff\"}}"),
		"no UTF-8 elsewhere":   end("{\"metadata\":{\"k\":[\"\xff\"]}}"),
		"message of an object": end(`{"error":{"code":"internal","message":{"a":1}}}`),
		"message of a number":  end(`{"error":{"code":"internal","message":1}}`),
		"code of an object":    end(`{"error":{"code":{},"message":"x"}}`),
		"code of a truth":      end(`{"error":{"code":true}}`),
	} {
		got, res := relay(bytes.NewReader(join(message("one"), frame)), nil)
		if got != string(message("one")) || !errors.Is(res.ReadErr, ErrInvalidFrame) || res.Ended {
			t.Errorf("%s: %q, %+v", name, got, res)
		}
	}
	stream := join(Append(nil, 1, []byte("z")), Append(nil, 3, []byte("z")))
	got, res := relay(bytes.NewReader(stream), func(r *Relay) { r.Compressed = true })
	if got != string(stream) || !res.Ended {
		t.Errorf("compression was agreed on: %q, %+v", got, res)
	}
}

func TestErrorsTheClientCanReadPass(t *testing.T) {
	for _, failure := range []string{
		`{}`, `{"code":"internal"}`, `{"code":13,"message":"x"}`, `{"code":-1}`, `{"code":null,"message":null}`, ` { "message" : "ä" , "code" : "x", "details": [1] } `,
	} {
		stream := end(`{"error":` + failure + `}`)
		if got, res := relay(bytes.NewReader(stream), nil); got != string(stream) || !res.Ended {
			t.Errorf("%s: %q, %+v", failure, got, res)
		}
	}
}

func TestEndStreamCanBeReplaced(t *testing.T) {
	got, res := relay(bytes.NewReader(join(message("one"), end(`{"error":{}}`))), func(r *Relay) {
		r.EndStream = func(p []byte, messages int64) []byte { return fmt.Appendf(nil, "%d %s", messages, p) }
	})
	if got != string(join(message("one"), end(`1 {"error":{}}`))) || !res.Ended {
		t.Fatalf("%q, %+v", got, res)
	}
}

func TestEveryBatchIsFlushedBeforeTheNextRead(t *testing.T) {
	var dst bytes.Buffer
	flushed := 0
	frames := [][]byte{message("one"), message("two"), end("{}")}
	next := 0
	src := readerFunc(func(p []byte) (int, error) {
		if flushed != dst.Len() {
			t.Fatalf("read %d with %d of %d bytes flushed", next, flushed, dst.Len())
		}
		next++
		return copy(p, frames[next-1]), nil
	})
	r := Relay{Dst: &dst, MaxHeld: 64, Flush: func() error { flushed = dst.Len(); return nil }}
	if res := r.Copy(src); !res.Ended || next != 3 {
		t.Fatalf("%+v after %d reads", res, next)
	}
}

// bursts is a source that has each burst at once, and waits between them.
type bursts struct {
	of   [][]byte
	then error
	left []byte
	wait func() // called before it waits
}

func (b *bursts) Ready() int { return len(b.left) }

func (b *bursts) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		b.wait()
		if len(b.of) == 0 {
			return 0, b.then
		}
		b.left, b.of = b.of[0], b.of[1:]
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// A flush costs a system call and a packet.
func TestNothingIsFlushedWhileMoreIsReadyAndEverythingBeforeAWait(t *testing.T) {
	burst := bytes.Repeat(message(strings.Repeat("x", 1000)), 1000)
	for name, copyAll := range map[string]func(dst io.Writer, flush func() error, src io.Reader) error{
		"a stream": func(dst io.Writer, flush func() error, src io.Reader) error {
			r := Relay{Dst: dst, Flush: flush, MaxHeld: 1 << 20}
			return r.Copy(src).ReadErr
		},
		"a plain body": func(dst io.Writer, flush func() error, src io.Reader) error {
			readErr, _ := CopyPlain(dst, flush, src)
			return readErr
		},
	} {
		t.Run(name, func(t *testing.T) {
			var dst bytes.Buffer
			flushes, flushed := 0, 0
			src := &bursts{of: [][]byte{message("one"), burst, message("two")}, then: errReset, wait: func() {
				if flushed != dst.Len() {
					t.Errorf("waits with %d of %d bytes flushed", flushed, dst.Len())
				}
			}}
			err := copyAll(&dst, func() error { flushes++; flushed = dst.Len(); return nil }, src)
			if want := string(join(message("one"), burst, message("two"))); dst.String() != want || err != errReset || flushes != 3 {
				t.Errorf("%d of %d bytes, %d flushes, %v", dst.Len(), len(want), flushes, err)
			}
		})
	}
}

// Who looks for the cause of a failure may take long.
func TestWhatCameBeforeAFailureIsFlushed(t *testing.T) {
	flushed := false
	r := Relay{Dst: io.Discard, Flush: func() error { flushed = true; return nil }, MaxHeld: 64}
	if res := r.Copy(iotest.DataErrReader(thenReset(message("one")))); !flushed || res.ReadErr != errReset {
		t.Fatalf("flushed: %v, %+v", flushed, res)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAClientThatFailsEndsTheRelay(t *testing.T) {
	for name, r := range map[string]Relay{
		"write": {Dst: writerFunc(func([]byte) (int, error) { return 0, errReset }), Flush: func() error { return nil }},
		"flush": {Dst: io.Discard, Flush: func() error { return errReset }},
	} {
		if res := r.Copy(bytes.NewReader(join(message("one"), end("{}")))); res.WriteErr == nil || res.ReadErr != nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
