package rock

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// code is a Connect error code.
type code string

const (
	codeNotFound         code = "not_found"
	codeInvalid          code = "invalid_argument"
	codeExists           code = "already_exists"
	codePermission       code = "permission_denied"
	codeExhausted        code = "resource_exhausted"
	codeUnimplemented    code = "unimplemented"
	codeUnavailable      code = "unavailable"
	codeDeadlineExceeded code = "deadline_exceeded"
	codeInternal         code = "internal"
)

// httpStatus of a unary error.
var httpStatus = map[code]int{
	codeInvalid: 400, codePermission: 403, codeNotFound: 404, codeExists: 409, codeExhausted: 429,
	codeInternal: 500, codeUnimplemented: 501, codeUnavailable: 503, codeDeadlineExceeded: 504,
}

// maxMessage bounds a Connect request message.
const maxMessage = 1 << 20

// Texts of a rocklet that cannot be reached.
const (
	unreachableCommands = "sandbox command service is unavailable"
	unreachableFiles    = "sandbox filesystem service is unavailable"
)

// rpcError is a failure with its Connect code.
type rpcError struct {
	code    code
	message string
}

func (e *rpcError) Error() string { return e.message }

func invalid(message string) error { return &rpcError{codeInvalid, message} }

func connectCodeOf(err error) code {
	var e *rpcError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, errNoHeader):
		return codeInvalid
	case errors.Is(err, ErrNotRunning):
		return codeNotFound
	}
	return codeInternal
}

func messageOf(err error) string {
	if errors.Is(err, ErrNotRunning) {
		return notRunning
	}
	return err.Error()
}

// envelope is a 5-byte prefix (flags, big-endian length) and the payload. Flag 0x02 marks EndStream.
func envelope(flags byte, payload []byte) []byte {
	b := make([]byte, 5, 5+len(payload))
	b[0] = flags
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	return append(b, payload...)
}

// oneEnvelope reads a request that must be exactly one uncompressed message.
func oneEnvelope(r io.Reader) ([]byte, error) {
	var prefix [5]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, invalid("request envelope is incomplete")
	}
	if prefix[0] != 0 {
		return nil, invalid("request envelope flags are not supported")
	}
	n := binary.BigEndian.Uint32(prefix[1:])
	if n > maxMessage {
		return nil, invalid("request envelope is larger than 1 MiB")
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, invalid("request envelope is incomplete")
	}
	if extra, _ := io.ReadFull(r, prefix[:1]); extra > 0 {
		return nil, invalid("request must be one envelope")
	}
	return payload, nil
}

// streamHeader starts a Connect stream: HTTP 200, chunked, flushed at once.
func streamHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/connect+json")
	w.WriteHeader(http.StatusOK)
}

// streamError is a whole stream that consists of one EndStream.
func streamError(w http.ResponseWriter, c code, err error) {
	streamHeader(w)
	_ = endStream(w, c, messageOf(err))
}

// endStream closes a stream; code "" is success.
func endStream(w io.Writer, c code, message string) error {
	end := []byte("{}")
	if c != "" {
		end = encode(map[string]any{"error": map[string]string{"code": string(c), "message": message}})
	}
	_, err := w.Write(envelope(0x02, end))
	return err
}

func unaryError(w http.ResponseWriter, c code, message string) {
	writeJSON(w, httpStatus[c], map[string]string{"code": string(c), "message": message})
}

// unary wraps a method of the Filesystem service: JSON in, JSON out, the sandbox found and its deadline renewed.
func unary[Q any](c *Cluster, call func(s *Sandbox, req Q) (any, error)) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, _ string) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxMessage+1))
		if err != nil {
			return
		}
		var req Q
		var s *Sandbox
		switch {
		case len(body) > maxMessage:
			err = invalid("request is larger than 1 MiB")
		case !strings.HasPrefix(strings.TrimSpace(string(body)), "{") || json.Unmarshal(body, &req) != nil:
			err = invalid("request is not a valid JSON message")
		default:
			s, err = c.running(r)
		}
		if err == nil {
			s.touch()
			var answer any
			if answer, err = call(s, req); err == nil {
				writeJSON(w, http.StatusOK, answer)
				return
			}
		}
		unaryError(w, connectCodeOf(err), messageOf(err))
	}
}
