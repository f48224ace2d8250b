package cause

import (
	"cmp"
	"encoding/json"
	"html"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// Failure is a cause with what its message needs.
type Failure struct {
	Cause Cause
	// SandboxID is the checked id of the sandbox, or "".
	SandboxID string
	// Port is the port of the sandbox for PortClosed, 0 otherwise.
	Port uint16
	// Message replaces the table's text. It must be safe to show.
	Message string
	// Code and Status replace the table's Connect code and HTTP status: an
	// upstream's own, kept.
	Code   string
	Status int
	// RetryAfter replaces the table's wait, in seconds.
	RetryAfter int
	// Path is the request's path for Reserved, as E2B reports it.
	Path string
}

// Text is the message for the client.
func (f Failure) Text() string { return f.say(table[f.Cause].text) }

// say fills in a text of the table.
func (f Failure) say(text string) string {
	if f.Message != "" {
		return f.Message
	}
	if f.SandboxID == "" {
		// Only calls without a sandbox leave the id out.
		text = strings.Replace(text, " %s", "", 1)
	}
	return strings.Replace(text, "%s", f.SandboxID, 1)
}

func (f Failure) status() int {
	if f.Status != 0 {
		return f.Status
	}
	return f.Cause.Status()
}

func (f Failure) code() string {
	if f.Code != "" {
		return f.Code
	}
	return table[f.Cause].code
}

// EndStream is the payload of the EndStream envelope that tells the failure.
// Connect's EndStream is JSON in every codec.
func (f Failure) EndStream() []byte {
	if f.Cause == OK {
		return []byte("{}")
	}
	type connectError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	return marshal(struct {
		Error connectError `json:"error"`
	}{connectError{f.code(), f.Text()}})
}

// End is what ends a stream of protocol p that is under way: the rest of the
// body, which must begin where a frame may, and the trailers. The zero Failure
// ends it well. Protocols without frames have no such end.
func (f Failure) End(p protocol.Protocol) (body []byte, trailer http.Header) {
	switch p {
	case protocol.ConnectStream:
		return envelope.Append(nil, envelope.FlagEndStream, f.EndStream()), nil
	case protocol.GRPC:
		trailer = http.Header{}
		f.setGRPC(trailer)
		return nil, trailer
	case protocol.GRPCWeb, protocol.GRPCWebText:
		return f.grpcWebTrailers(p), nil
	default:
		return nil, nil
	}
}

// Write answers a request with the failure, in the request's protocol. Nothing
// may have been written before. contentType is the request's Content-Type,
// which the answer of a framed protocol repeats.
func (f Failure) Write(w http.ResponseWriter, p protocol.Protocol, contentType string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	// Clients compare the content type as it is, so it has no parameter.
	contentType = protocol.MediaType(contentType)
	switch p {
	case protocol.ConnectUnary:
		f.writeUnary(w)
	case protocol.ConnectStream, protocol.GRPCWeb, protocol.GRPCWebText:
		h.Set("Content-Type", contentType)
		body, _ := f.End(p)
		send(w, http.StatusOK, body)
	case protocol.GRPC:
		h.Set("Content-Type", contentType)
		// Trailers-Only: the status travels in the headers (gRPC over HTTP/2,
		// "Responses").
		f.setGRPC(h)
		send(w, http.StatusOK, nil)
	case protocol.Page:
		f.writePage(w)
	default:
		f.writeE2B(w, f.status())
	}
}

// WriteHealth answers /health.
func (f Failure) WriteHealth(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if text := table[f.Cause].healthText; text != "" {
		f.Message = f.say(text)
	}
	f.writeE2B(w, f.Cause.HealthStatus())
}

func (f Failure) writeUnary(w http.ResponseWriter) {
	f.write(w, f.status(), "application/json", marshal(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{f.code(), f.Text()}))
}

// writeE2B writes E2B's error object. Its code is always the status: the SDKs
// look at either.
func (f Failure) writeE2B(w http.ResponseWriter, status int) {
	f.write(w, status, "application/json; charset=utf-8", marshal(struct {
		SandboxID string `json:"sandboxId,omitempty"`
		Message   string `json:"message"`
		Port      uint16 `json:"port,omitempty"`
		Path      string `json:"path,omitempty"`
		Code      int    `json:"code"`
	}{f.SandboxID, f.Text(), f.Port, f.Path, status}))
}

func (f Failure) writePage(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	title := strconv.Itoa(f.status()) + " " + http.StatusText(f.status())
	f.write(w, f.status(), "text/html; charset=utf-8", []byte("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>"+title+
		"</title><style>body{font-family:sans-serif;margin:4rem auto;max-width:40rem;padding:0 1rem;color-scheme:light dark}</style><h1>"+
		title+"</h1><p>"+html.EscapeString(f.Text())+"</p></html>\n"))
}

func (f Failure) write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	if after := cmp.Or(f.RetryAfter, table[f.Cause].retryAfter); after > 0 && (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) {
		h.Set("Retry-After", strconv.Itoa(after))
	} else if status >= 500 {
		// Newest Python repeats 502 and 504 too, even a create, unless told
		// not to.
		h.Set("Should-Retry", "false")
	}
	send(w, status, body)
}

// send writes a whole answer. Its length is told, so that the client has all of
// it when the last byte arrives, and not when the handler is done.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// marshal encodes v without escaping for HTML: the texts are read by people in
// terminals. The types it is given cannot fail to encode.
func marshal(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{"code":500,"message":"internal error"}`)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
