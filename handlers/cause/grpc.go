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
	if n, ok := grpcStatuses[f.code()]; ok {
		return n
	}
	return grpcStatuses["unknown"]
}

// GRPCWebTrailers is the trailer frame that tells the failure.
func (f Failure) GRPCWebTrailers() []byte {
	block := "grpc-status: " + strconv.Itoa(f.grpcStatus()) + "\r\n" +
		"grpc-message: " + percentEncode(f.Text()) + "\r\n"
	return envelope.Append(nil, envelope.FlagGRPCWebTrailers, []byte(block))
}

func (f Failure) writeGRPCWeb(w http.ResponseWriter, p protocol.Protocol, contentType string) {
	w.Header().Set("Content-Type", contentType)
	body := f.GRPCWebTrailers()
	if p == protocol.GRPCWebText {
		body = []byte(base64.StdEncoding.EncodeToString(body))
	}
	send(w, http.StatusOK, body)
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
