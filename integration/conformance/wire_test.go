package conformance

import (
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// What the runner says to the programs that it starts: messages of proto/connectrpc/conformance/v1, each behind its length in
// four bytes, big-endian. The suite keeps its generated code to itself, and the few fields that matter here are numbers and bytes.

// Values of HTTPVersion and of Protocol.
const (
	http1, http2 = 1, 2
	grpc         = 2
)

// Fields of ServerCompatRequest.
const (
	askedProtocol   protowire.Number = 1
	askedVersion    protowire.Number = 2
	askedTLS        protowire.Number = 4
	askedClientCert protowire.Number = 5
	askedLimit      protowire.Number = 6
)

// Fields of ServerCompatResponse.
const (
	servedHost protowire.Number = 1
	servedPort protowire.Number = 2
	servedCert protowire.Number = 3
)

// Fields of ClientCompatRequest.
const (
	callVersion protowire.Number = 2
	callHost    protowire.Number = 6
	callPort    protowire.Number = 7
	callCert    protowire.Number = 8
)

// message is one, encoded.
type message []byte

// readMessage reads the next. The error is io.EOF where there is none.
func readMessage(r io.Reader) (message, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	m := make(message, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, m)
	return m, err
}

func (m message) writeTo(w io.Writer) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...))
	return err
}

// number is the value of a field of numbers, 0 where it is missing.
func (m message) number(field protowire.Number) (n uint64) {
	m.each(func(f protowire.Number, t protowire.Type, value []byte) {
		if f == field && t == protowire.VarintType {
			n, _ = protowire.ConsumeVarint(value)
		}
	})
	return n
}

// bytes is the value of a field of bytes or of text, nil where it is missing.
func (m message) bytes(field protowire.Number) (b []byte) {
	m.each(func(f protowire.Number, t protowire.Type, value []byte) {
		if f == field && t == protowire.BytesType {
			b, _ = protowire.ConsumeBytes(value)
		}
	})
	return b
}

// without is the message less some of its fields.
func (m message) without(fields ...protowire.Number) (less message) {
	m.each(func(f protowire.Number, t protowire.Type, value []byte) {
		for _, dropped := range fields {
			if f == dropped {
				return
			}
		}
		less = append(protowire.AppendTag(less, f, t), value...)
	})
	return less
}

func (m message) withNumber(field protowire.Number, n uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), n)
}

func (m message) withBytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

// each is told every field with its encoded value. What is no message any more is left out: the suite writes none.
func (m message) each(do func(protowire.Number, protowire.Type, []byte)) {
	for len(m) > 0 {
		field, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return
		}
		m = m[n:]
		if n = protowire.ConsumeFieldValue(field, kind, m); n < 0 {
			return
		}
		do(field, kind, m[:n])
		m = m[n:]
	}
}
