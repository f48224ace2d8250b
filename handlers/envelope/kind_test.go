package envelope

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func trailers(s string) []byte { return Append(nil, FlagGRPCWebTrailers, []byte(s)) }

func encode(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }

func ofKind(k Kind) func(*Relay) { return func(r *Relay) { r.Kind = k } }

func TestGRPCWebEndsWithItsTrailerFrame(t *testing.T) {
	whole := join(message("one"), message("two"))
	stream := join(whole, trailers("Grpc-Status: 0\r\ngrpc-message: \r\n"))
	for name, src := range map[string]io.Reader{
		"in one piece": bytes.NewReader(join(stream, []byte("garbage"))),
		"byte by byte": iotest.OneByteReader(thenReset(stream)),
	} {
		if got, res := relay(src, ofKind(GRPCWeb)); got != string(stream) || !res.Ended || res.Messages != 2 || !res.Final {
			t.Errorf("%s: %q, %+v", name, got, res)
		}
	}
	for name, frame := range map[string][]byte{
		"EndStream of Connect":       end("{}"),
		"unknown flag":               Append(nil, 4, nil),
		"compressed message":         Append(nil, FlagCompressed, []byte("z")),
		"trailers of nothing":        trailers(""),
		"trailers without a status":  trailers("grpc-message: x\r\n"),
		"trailers that are no lines": trailers("grpc-status"),
		"a status of letters":        trailers("grpc-status: ok\r\n"),
		"huge trailers":              {0x80, 0xff, 0xff, 0xff, 0xff},
	} {
		got, res := relay(bytes.NewReader(join(whole, frame)), ofKind(GRPCWeb))
		if got != string(whole) || res.Ended || !errors.Is(res.ReadErr, ErrInvalidFrame) {
			t.Errorf("%s: %q, %+v", name, got, res)
		}
	}
	compressed := join(Append(nil, FlagCompressed, []byte("z")), Append(nil, FlagCompressed|FlagGRPCWebTrailers, []byte("z")))
	got, res := relay(bytes.NewReader(compressed), func(r *Relay) { r.Kind, r.Compressed = GRPCWeb, true })
	if got != string(compressed) || !res.Ended {
		t.Errorf("compression was agreed on: %q, %+v", got, res)
	}
}

func TestGRPCEndsWhereItsSourceDoes(t *testing.T) {
	whole := join(message("one"), message("two"))
	for name, tc := range map[string]struct {
		src  io.Reader
		want error
	}{
		"between frames":  {bytes.NewReader(whole), io.EOF},
		"inside a prefix": {bytes.NewReader(join(whole, []byte{0, 0})), io.ErrUnexpectedEOF},
		"inside a frame":  {bytes.NewReader(join(whole, message("three")[:7])), io.ErrUnexpectedEOF},
		"reset":           {thenReset(whole), errReset},
		"EndStream":       {bytes.NewReader(join(whole, end("{}"))), ErrInvalidFrame},
		"trailer frame":   {bytes.NewReader(join(whole, trailers("grpc-status: 0"))), ErrInvalidFrame},
	} {
		got, res := relay(tc.src, ofKind(GRPC))
		if got != string(whole) || res.Ended || res.Torn || res.Messages != 2 || !errors.Is(res.ReadErr, tc.want) {
			t.Errorf("%s: %q, %+v", name, got, res)
		}
	}
}

func TestTheFinalMessageIsToldOnceItIsDelivered(t *testing.T) {
	var dst bytes.Buffer
	delivered := ""
	r := Relay{Dst: &dst, Flush: func() error { return nil }, MaxHeld: 64, Classify: func(p []byte) Class {
		if string(p) == "over" {
			return Final
		}
		return Other
	}, OnFinal: func() { delivered += dst.String() }}
	if res := r.Copy(thenReset(join(message("one"), message("over"), message("more")))); !res.Final {
		t.Fatalf("%+v", res)
	}
	if want := string(join(message("one"), message("over"), message("more"))); delivered != want {
		t.Fatalf("told when %q was delivered", delivered)
	}
	delivered = ""
	if res := r.Copy(thenReset(message("one"))); res.Final || delivered != "" {
		t.Fatalf("%+v, told when %q was delivered", res, delivered)
	}
}

// Contract checklist 55: grpc-web without framing room is not repaired.
func TestGRPCWebTextPassesUnchangedHoweverItIsEncoded(t *testing.T) {
	frames := [][]byte{message("one"), message(""), message("two"), message(strings.Repeat("x", 65)), trailers("grpc-status: 0\r\n")}
	var apart []byte
	for _, f := range frames {
		apart = append(apart, encode(f)...)
	}
	for name, stream := range map[string][]byte{
		"each frame by itself": apart,
		"all at once":          encode(join(frames...)),
	} {
		for how, src := range map[string]io.Reader{
			"in one piece": bytes.NewReader(stream),
			"byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
			"then a reset": iotest.HalfReader(thenReset(stream)),
		} {
			got, res := relay(src, ofKind(GRPCWebText))
			if got != string(stream) || !res.Ended || res.Torn || res.Messages != 4 || !res.Final {
				t.Errorf("%s, %s: %q, %+v", name, how, got, res)
			}
		}
	}
}

func TestGRPCWebTextIsCutWhereAnotherFrameCanFollow(t *testing.T) {
	one, two := encode(message("one")), encode(message("two"))
	// 8 bytes are two quanta and two thirds: the third holds the end of one
	// frame and the beginning of the next.
	shared := encode(join(message("two"), message("next")))
	for name, tc := range map[string]struct {
		src, want []byte
		messages  int64
		final     bool
	}{
		"between quanta":          {join(one, two), join(one, two), 2, true},
		"inside a quantum":        {join(one, two[:len(two)-1]), one, 1, false},
		"in a shared quantum":     {join(one, shared[:len(two)]), one, 1, false},
		"no base64":               {join(one, []byte("!!!!")), one, 1, false},
		"a newline":               {join(one, []byte("\n"), two), one, 1, false},
		"a frame of another sort": {join(one, encode(end("{}"))), one, 1, false},
		"trailers of nothing":     {join(one, encode(trailers(""))), one, 1, false},
	} {
		for _, src := range []io.Reader{thenReset(tc.src), iotest.OneByteReader(bytes.NewReader(tc.src))} {
			got, res := relay(src, ofKind(GRPCWebText))
			if got != string(tc.want) || res.Ended || res.Torn || res.Messages != tc.messages || res.Final != tc.final || res.ReadErr == nil {
				t.Errorf("%s: %q, want %q, %+v", name, got, tc.want, res)
			}
		}
	}
}

func TestGRPCWebTextThatNeverAlignsIsTornAndBounded(t *testing.T) {
	// 10 bytes a frame in one run: two of three frames end inside a quantum.
	stream := encode(join(message("ab"), message(strings.Repeat("x", 200)), message("ab")))
	cut := stream[:len(stream)-4]
	got, res := relay(iotest.OneByteReader(thenReset(cut)), ofKind(GRPCWebText))
	if got != string(cut) || !res.Torn || res.Messages != 2 {
		t.Fatalf("%q, want %q, %+v", got, cut, res)
	}
}

func TestWhatSharesAQuantumWithTheLastFrameIsDropped(t *testing.T) {
	last := trailers("grpc-status: 0\r\n") // 21 bytes: whole quanta
	longer := trailers("grpc-status: 00\r\n")
	for _, frame := range [][]byte{last, longer} {
		for _, extra := range []string{"", "x", "xy", "xyz and more"} {
			stream := encode(join(message("one"), frame, []byte(extra)))
			for _, src := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream))} {
				got, res := relay(src, ofKind(GRPCWebText))
				if want := encode(join(message("one"), frame)); got != string(want) || !res.Ended {
					t.Errorf("%q, want %q, %+v", got, want, res)
				}
			}
		}
	}
}
