// Package envelope reads and writes the frames that Connect, gRPC and gRPC-Web
// streams are made of.
//
// On the wire each frame is a prefix of five bytes and a payload. The first
// byte holds flags, the other four the length of the payload, big-endian:
//
//	0      1                      5                 5+length
//	+------+----------------------+-----------------+
//	| flag | length               | payload         |
//	+------+----------------------+-----------------+
//
// The last frame of a Connect stream has flag 0x02 and is called EndStream. Its
// payload is JSON whatever the codec of the messages (Connect protocol,
// "Streaming RPCs").
//
// The package knows bytes and nothing else: no HTTP, no sandbox.
package envelope

import "encoding/binary"

// PrefixSize is the size of the prefix, in bytes.
const PrefixSize = 5

// Flags of the first byte.
const (
	// FlagCompressed: the payload is compressed.
	FlagCompressed byte = 0x01
	// FlagEndStream ends a Connect stream.
	FlagEndStream byte = 0x02
	// FlagGRPCWebTrailers is the trailer frame that ends a gRPC-Web stream.
	FlagGRPCWebTrailers byte = 0x80
)

// Append appends a frame to dst.
func Append(dst []byte, flags byte, payload []byte) []byte {
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...)
}
