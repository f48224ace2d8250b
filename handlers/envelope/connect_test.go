package envelope

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"connectrpc.com/connect"
)

// wire is a message that is its own encoding.
type wire []byte

type wireCodec struct{}

func (wireCodec) Name() string                    { return "wire" }
func (wireCodec) Marshal(m any) ([]byte, error)   { return *m.(*wire), nil }
func (wireCodec) Unmarshal(b []byte, m any) error { *m.(*wire) = slices.Clone(b); return nil }

// answered is an HTTP client that is given one answer.
type answered struct {
	contentType string
	body        []byte
	trailer     http.Header
}

func (a answered) Do(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": {a.contentType}}, Trailer: a.trailer,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: -1, Request: r,
	}, nil
}

// read is how connect-go reads a stream: its messages, and how it ended.
func read(kind Kind, body []byte) (messages [][]byte, err error) {
	a := answered{contentType: "application/connect+wire", body: body}
	options := []connect.ClientOption{connect.WithCodec(wireCodec{}), connect.WithAcceptCompression("gzip", nil, nil)}
	switch kind {
	case GRPC:
		a.contentType = "application/grpc+wire"
		a.trailer = http.Header{"Grpc-Status": {"0"}}
		options = append(options, connect.WithGRPC())
	case GRPCWeb:
		a.contentType = "application/grpc-web+wire"
		options = append(options, connect.WithGRPCWeb())
	}
	client := connect.NewClient[wire, wire](a, "http://sandbox/process.Process/Start", options...)
	stream, err := client.CallServerStream(context.Background(), connect.NewRequest(&wire{}))
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	for stream.Receive() {
		messages = append(messages, *stream.Msg())
	}
	return messages, stream.Err()
}

// ourEnd is how a caller of the relay ends a stream whose source did not.
func ourEnd(kind Kind) []byte {
	if kind == Connect {
		return end(`{"error":{"code":"data_loss","message":"ours"}}`)
	}
	return trailers("grpc-status: 15\r\ngrpc-message: ours\r\n")
}

func isOurs(err error) bool {
	var e *connect.Error
	return errors.As(err, &e) && e.Code() == connect.CodeDataLoss && e.Message() == "ours"
}

// agree holds what a relay has forwarded against what connect-go makes of the
// stream itself.
func agree(t *testing.T, kind Kind, stream, got []byte, res Result) {
	t.Helper()
	want, wantErr := read(kind, stream)
	sent := got
	if !res.Ended && !res.Torn && kind != GRPC {
		sent = join(got, ourEnd(kind))
	}
	have, haveErr := read(kind, sent)
	if len(have) > len(want) || !slices.EqualFunc(have, want[:len(have)], bytes.Equal) {
		t.Fatalf("messages %q, want %q", have, want)
	}
	switch {
	case res.Torn:
		if haveErr == nil {
			t.Fatal("a cut inside a message went unseen")
		}
	case res.Ended || kind == GRPC && res.ReadErr == io.EOF:
		// The sandbox's own end, good or bad, and not a complaint of the
		// client's about the stream. What else than a status is in trailers,
		// and how their last line ends, is between the sandbox and the client:
		// connect-go complains of a message that is badly encoded, and gRPC
		// says that nobody should.
		complains := haveErr != nil && !connect.IsWireError(haveErr)
		if kind == GRPCWeb && (!bytes.HasSuffix(got, []byte("\n")) || bytes.Count(got, []byte(":")) > 1) {
			complains = false
		}
		if len(have) != len(want) || complains {
			t.Fatalf("%d messages of %d and then %v", len(have), len(want), haveErr)
		}
	case kind == GRPC:
		if wantErr == nil && !errors.Is(res.ReadErr, ErrInvalidFrame) {
			t.Fatalf("connect-go reads to a good end, the relay to %v", res.ReadErr)
		}
	default:
		if !isOurs(haveErr) {
			t.Fatalf("our end reads as %v", haveErr)
		}
		// We refuse what other clients than connect-go cannot read.
		if wantErr == nil && !errors.Is(res.ReadErr, ErrInvalidFrame) {
			t.Fatalf("connect-go reads to a good end, the relay to %v", res.ReadErr)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
