package envelope

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// inPieces is a stream that comes size bytes at a time, and then an end.
func inPieces(stream []byte, size int, then error) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if len(stream) == 0 {
			return 0, then
		}
		n := copy(p, stream[:min(len(stream), size)])
		stream = stream[n:]
		return n, nil
	})
}

// reference reads a stream that is all there.
func reference(kind Kind, stream []byte, maxHeld int) (forwarded []byte, ended, torn bool) {
	pos := 0
	for len(stream)-pos >= PrefixSize {
		flags, size := stream[pos], int(binary.BigEndian.Uint32(stream[pos+1:]))+PrefixSize
		last := flags != 0 && flags == kind.endFlag()
		long := size > maxHeld+PrefixSize
		switch {
		case flags != 0 && !last, last && long:
			return stream[:pos], false, false
		case len(stream)-pos < size && long:
			return stream, false, true
		case len(stream)-pos < size:
			return stream[:pos], false, false
		case !last:
			pos += size
			continue
		}
		payload := stream[pos+PrefixSize : pos+size]
		if kind == Connect && !readable(payload) || kind != Connect && !hasStatus(payload) {
			return stream[:pos], false, false
		}
		return stream[:pos+size], true, false
	}
	return stream[:pos], false, false
}

// FuzzRelay holds the relay against a plain reading of the format and against
// connect-go: whatever arrives, in whatever pieces, the client gets the longest
// run of whole frames, never a byte after the last one, and can be told of
// every failure but a cut inside a long frame.
func FuzzRelay(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream []byte, kind, piece uint8) {
		k := Kind(kind % uint8(GRPCWebText))
		got, res := relay(inPieces(stream, int(piece)+1, io.EOF), ofKind(k))
		want, ended, torn := reference(k, stream, 64)
		if got != string(want) || res.Ended != ended || res.Torn != torn {
			t.Fatalf("got %q ended %v torn %v, want %q ended %v torn %v", got, res.Ended, res.Torn, want, ended, torn)
		}
		if (res.ReadErr == nil) != ended {
			t.Fatalf("ended %v with %v", ended, res.ReadErr)
		}
		agree(t, k, stream, []byte(got), res)
	})
}

// FuzzScanner: the state after any byte is that of a scanner that saw them one
// by one.
func FuzzScanner(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream []byte, kind, piece uint8) {
		k := Kind(kind % uint8(GRPCWebText))
		one, some := scanner{kind: k, max: 64}, scanner{kind: k, max: 64}
		for rest := stream; len(rest) > 0; {
			part := rest[:min(len(rest), int(piece)+1)]
			n, what, err := some.scan(part)
			var lastWhat event
			var lastErr error
			for i := range n {
				if lastWhat != nothing || lastErr != nil {
					t.Fatalf("byte %d of %d has ended something", i, n)
				}
				_, lastWhat, lastErr = one.scan(part[i : i+1])
			}
			if err != nil && n == 0 {
				_, _, lastErr = one.scan(part[:1])
			}
			if what != lastWhat || (err == nil) != (lastErr == nil) || one != some {
				t.Fatalf("%v %v %+v, byte by byte %v %v %+v", what, err, some, lastWhat, lastErr, one)
			}
			if err != nil || what == streamEnd {
				return
			}
			rest = rest[n:]
		}
	})
}

// FuzzReader: what is pulled is what is pushed, and then the end that the
// callback gives, once.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream []byte, kind, piece uint8) {
		k := Kind(kind % uint8(GRPCWebText+1))
		pushed, res := relay(inPieces(stream, int(piece)+1, errReset), ofKind(k))
		asked := 0
		r := &Reader{Src: io.NopCloser(inPieces(stream, int(piece)+1, errReset)), Kind: k, MaxHeld: 64,
			Last: func(Result) []byte { asked++; return []byte("LAST") }}
		pulled, err := readAll(r, int(piece/7)+1)
		want, wantErr := pushed, res.ReadErr
		if !res.Ended && !res.Torn && k != GRPC {
			want, wantErr = pushed+"LAST", nil
			asked--
		}
		if pulled != want || asked != 0 || errorText(err) != errorText(wantErr) {
			t.Fatalf("%q and %v, want %q and %v; asked %d times too often", pulled, err, want, wantErr, asked)
		}
	})
}

// FuzzText: base64 is relayed like what it encodes, and as it came. cuts are
// the places at which the server flushed.
func FuzzText(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream, cuts []byte, piece uint8) {
		var body []byte
		rest := stream
		for _, c := range cuts {
			n := min(len(rest), int(c))
			body = append(body, encode(rest[:n])...)
			rest = rest[n:]
		}
		body = append(body, encode(rest)...)

		got, res := relay(inPieces(body, int(piece)+1, errReset), ofKind(GRPCWebText))
		want, ended, _ := reference(GRPCWeb, stream, 64)
		decoded := decodeRuns(t, []byte(got))
		switch {
		case res.Ended != ended:
			t.Fatalf("%+v, want ended %v", res, ended)
		case ended && !bytes.Equal(decoded, want):
			t.Fatalf("%q, want %q", decoded, want)
		case ended:
			// The last quantum may have been cut.
			got = got[:max(0, len(got)-4)]
		case !res.Torn && !isPrefixOfFrames(decoded, want):
			t.Fatalf("%q is not whole frames of %q", decoded, want)
		}
		if !bytes.HasPrefix(body, []byte(got)) {
			t.Fatalf("%q was changed to %q", body, got)
		}
	})
}

// FuzzTextBytes: what is no base64, and no frames, is bounded and ends.
func FuzzTextBytes(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte, piece uint8) {
		got, res := relay(inPieces(body, int(piece)+1, errReset), ofKind(GRPCWebText))
		if !res.Ended && !bytes.HasPrefix(body, []byte(got)) {
			t.Fatalf("%q was changed to %q", body, got)
		}
		if !res.Ended && !res.Torn && len(got)%4 != 0 {
			t.Fatalf("%q ends inside a quantum", got)
		}
		if !res.Ended && !errors.Is(res.ReadErr, errReset) && !errors.Is(res.ReadErr, ErrInvalidFrame) {
			t.Fatalf("%+v", res)
		}
	})
}

// decodeRuns decodes base64 whose runs are padded each by itself, as far as
// whole quanta go.
func decodeRuns(t *testing.T, b []byte) (decoded []byte) {
	t.Helper()
	for ; len(b) >= 4; b = b[4:] {
		q, err := base64.StdEncoding.DecodeString(string(b[:4]))
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		decoded = append(decoded, q...)
	}
	return decoded
}

// isPrefixOfFrames reports whether b is some of the first frames of all.
func isPrefixOfFrames(b, all []byte) bool {
	if !bytes.HasPrefix(all, b) {
		return false
	}
	whole, _, torn := reference(GRPCWeb, b, 1<<30)
	return len(whole) == len(b) && !torn
}
