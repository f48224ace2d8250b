package cause

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// grpcStatuses are the numbers of the Connect codes (gRPC status codes).
var grpcStatuses = map[string]int{
	"canceled": 1, "unknown": 2, "invalid_argument": 3, "deadline_exceeded": 4,
	"not_found": 5, "already_exists": 6, "permission_denied": 7,
	"resource_exhausted": 8, "failed_precondition": 9, "aborted": 10,
	"out_of_range": 11, "unimplemented": 12, "internal": 13,
	"unavailable": 14, "data_loss": 15, "unauthenticated": 16,
}

func (f Failure) grpcStatus() int {
	if f.Cause == OK {
		return 0
	}
	if n, ok := grpcStatuses[f.code()]; ok {
		return n
	}
	return grpcStatuses["unknown"]
}

// setGRPC puts the trailers that tell the failure into h.
func (f Failure) setGRPC(h http.Header) {
	h.Set("Grpc-Status", strconv.Itoa(f.grpcStatus()))
	if f.Cause != OK {
		h.Set("Grpc-Message", percentEncode(f.Text()))
	}
}

// grpcWebTrailers is the trailer frame that tells the failure, in the form of
// p.
func (f Failure) grpcWebTrailers(p protocol.Protocol) []byte {
	block := "grpc-status: " + strconv.Itoa(f.grpcStatus()) + "\r\n"
	if f.Cause != OK {
		block += "grpc-message: " + percentEncode(f.Text()) + "\r\n"
	}
	frame := envelope.Append(nil, envelope.FlagGRPCWebTrailers, []byte(block))
	if p == protocol.GRPCWebText {
		return []byte(base64.StdEncoding.EncodeToString(frame))
	}
	return frame
}

// percentEncode is grpc-message's encoding: everything outside printable ASCII,
// and the percent sign, as %XX (gRPC over HTTP/2, "Status-Message").
func percentEncode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
