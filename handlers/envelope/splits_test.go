package envelope

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// longest is how long the streams are, in bytes, of which all splits are tried: there are 2^8 of one of 9.
const longest = 9

// Contract checklist 37. Every way in which a short stream can come in pieces, for who pushes and for who pulls, with each end. What must be delivered is
// read off the whole stream; see also FuzzRelay, which tries longer ones.
func TestNoSplitOfAShortStreamMakesADifference(t *testing.T) {
	words := map[Kind][][]byte{
		Connect: {message(""), message("m"), end("{}"), end("x"), Append(nil, 0x40, nil), message(strings.Repeat("x", 3))[:7]},
		GRPC:    {message(""), message("m"), Append(nil, 0x40, nil), message("xyz")[:6]},
		GRPCWeb: {message(""), message("m"), Append(nil, FlagGRPCWebTrailers, nil), Append(nil, 0x40, nil), message("xyz")[:6]},
	}
	tried := 0
	for kind, alphabet := range words {
		for _, first := range alphabet {
			for _, second := range append(alphabet, nil) {
				stream := join(first, second)
				stream = stream[:min(len(stream), longest)]
				for _, then := range []error{io.EOF, errReset} {
					want, ended, torn := reference(kind, stream, 64)
					for split := range 1 << (len(stream) - 1) {
						tried++
						got, res := relay(inSplit(stream, split, then), ofKind(kind))
						if got != string(want) || res.Ended != ended || res.Torn != torn || (res.ReadErr == nil) != ended {
							t.Fatalf("%v: %q split %b, then %v: %q, %+v", kind, stream, split, then, got, res)
						}
						if err := pull(kind, stream, split, then, string(want), ended, torn); err != nil {
							t.Fatalf("%v: %q split %b, then %v: pulled %v", kind, stream, split, then, err)
						}
					}
				}
			}
		}
	}
	t.Logf("%d streams in pieces", tried)
}

// pull reads what the relay would push, and the end that is put in the place of a failure.
func pull(kind Kind, stream []byte, split int, then error, want string, ended, torn bool) error {
	asked := 0
	r := &Reader{Src: io.NopCloser(inSplit(stream, split, then)), Kind: kind, MaxHeld: 64, Last: func(Result) []byte { asked++; return []byte("LAST") }}
	got, err := io.ReadAll(r)
	switch {
	case ended && (asked != 0 || err != nil):
	case torn && (asked != 0 || err == nil):
	case kind == GRPC && asked != 0:
	case !ended && !torn && kind != GRPC && (asked != 1 || err != nil):
	default:
		if asked == 1 {
			want += "LAST"
		}
		if string(got) == want {
			return nil
		}
	}
	return fmt.Errorf("%q, asked %d times: %w", got, asked, errors.Join(err))
}

// inSplit is a stream that comes in pieces: bit i of split says that one ends behind byte i.
func inSplit(stream []byte, split int, then error) io.Reader {
	at := 0
	return readerFunc(func(p []byte) (int, error) {
		if at == len(stream) {
			return 0, then
		}
		n := 1
		for at+n < len(stream) && split>>(at+n-1)&1 == 0 {
			n++
		}
		n = copy(p, stream[at:at+n])
		at += n
		return n, nil
	})
}
