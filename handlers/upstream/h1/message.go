package h1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
)

// maxInMemory is the longest body in memory that leaves in one piece with the head
// of its request, in bytes.
const maxInMemory = 64 << 10

// wires are the buffers that requests are put together in.
var wires = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// message is a request on its way onto a wire.
type message struct {
	req *http.Request
	// wire is what is to be written at once: the head, and a body in memory. It is
	// pooled.
	wire *[]byte
	// body is what is to be sent behind it, or nil. Its owner closes it.
	body io.ReadCloser
	// length of the body in bytes, negative for one that is sent in chunks.
	length  int64
	trailer http.Header // behind the chunks
	framed  bool        // the head is complete
}

// compose makes the head of a request, except for what frames its body. An error
// says that r cannot be sent, to anybody.
func (m *message) compose(r *http.Request) error {
	m.req, m.body, m.length = r, r.Body, r.ContentLength
	switch {
	case r.Body == nil && r.ContentLength != 0:
		return fmt.Errorf("a body of %d bytes that is nil", r.ContentLength)
	case r.Body == http.NoBody:
		m.body, m.length = nil, 0 // it need not be closed
	case r.Body != nil && r.ContentLength == 0:
		m.length = -1
	}
	switch {
	case len(r.TransferEncoding) == 0:
	case r.TransferEncoding[0] != "chunked":
		return errors.New("a transfer encoding that is not known")
	case m.body != nil:
		m.length = -1
	}
	if m.length < 0 {
		m.trailer = r.Trailer
	}
	m.wire = wires.Get().(*[]byte)
	if err := m.head(); err != nil {
		m.free()
		return err
	}
	return nil
}

// head writes the request line and the headers of the caller.
func (m *message) head() error {
	r := m.req
	if r.Header == nil {
		return errors.New("headers that are nil")
	}
	if r.URL == nil || r.URL.Scheme != "http" || r.URL.Host == "" {
		return errors.New("not a URL to send a request to")
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	if !httpguts.ValidHeaderFieldName(method) || method == http.MethodConnect {
		return fmt.Errorf("the method %q cannot be sent", method)
	}
	target := r.URL.RequestURI()
	for i := range len(target) {
		if target[i] < ' ' || target[i] == 0x7f {
			return errors.New("a control character in the request target")
		}
	}
	host, err := hostHeader(r)
	if err != nil {
		return err
	}
	if err := validTrailer(r.Trailer); err != nil {
		return err
	}
	b := append(append(append((*m.wire)[:0], method...), ' '), target...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), host...)
	b = append(b, "\r\n"...)
	*m.wire, err = appendHeaders(b, r.Header)
	if r.Close && !httpguts.HeaderValuesContainsToken(r.Header["Connection"], "close") {
		*m.wire = append(*m.wire, "Connection: close\r\n"...)
	}
	return err
}

// hostHeader is the value of Host. One that is not valid is left empty, as
// RFC 9112 section 3.2 allows.
func hostHeader(r *http.Request) (string, error) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	host, err := httpguts.PunycodeHostPort(host)
	if err != nil {
		return "", err
	}
	if !httpguts.ValidHostHeader(host) {
		return "", nil
	}
	// A zone means nothing to the other side (RFC 6874 section 4).
	if end := strings.LastIndexByte(host, ']'); end > 0 && host[0] == '[' {
		if zone := strings.LastIndexByte(host[:end], '%'); zone >= 0 {
			host = host[:zone] + host[end:]
		}
	}
	return host, nil
}

// appendHeaders appends the headers of the caller.
func appendHeaders(b []byte, h http.Header) ([]byte, error) {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return b, fmt.Errorf("a header with the name %q", name)
		}
		own := setByUs(name)
		if own == agent && len(values) > 1 {
			values = values[:1]
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return b, fmt.Errorf("the value of the header %q cannot be sent", name) // it may be a secret
			}
			v = textproto.TrimString(v)
			if own == framing || own == agent && v == "" {
				continue
			}
			b = append(append(b, name...), ": "...)
			b = append(append(b, v...), "\r\n"...)
		}
	}
	return b, nil
}

// What a header of the caller is to the head of a request.
const (
	passed  = iota
	framing // made here, from the fields of the request
	agent   // sent once, and not if it is empty
)

func setByUs(name string) int {
	switch len(name) {
	case len("Host"):
		if strings.EqualFold(name, "Host") {
			return framing
		}
	case len("Trailer"):
		if strings.EqualFold(name, "Trailer") {
			return framing
		}
	case len("User-Agent"):
		if strings.EqualFold(name, "User-Agent") {
			return agent
		}
	case len("Content-Length"):
		if strings.EqualFold(name, "Content-Length") {
			return framing
		}
	case len("Transfer-Encoding"):
		if strings.EqualFold(name, "Transfer-Encoding") {
			return framing
		}
	}
	return passed
}

// validTrailer checks what is to be sent behind a body, as far as it is known.
func validTrailer(h http.Header) error {
	for name, values := range h {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("a trailer with the name %q", name)
		case setByUs(name) == framing:
			return fmt.Errorf("%q cannot be a trailer", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("the value of the trailer %q cannot be sent", name)
			}
		}
	}
	return nil
}

// frame completes the head. A body in memory follows it at once.
func (m *message) frame() error {
	if m.framed {
		return nil // and was not sent, see errNotSent
	}
	if m.body != nil && m.length < 0 && usuallyWithoutBody(m.req) {
		if err := m.probe(); err != nil {
			return err
		}
	}
	b := *m.wire
	switch {
	case m.length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		b = appendTrailerNames(b, m.trailer)
	case m.length > 0, m.req.Method == http.MethodPost, m.req.Method == http.MethodPut, m.req.Method == http.MethodPatch:
		b = strconv.AppendInt(append(b, "Content-Length: "...), m.length, 10)
		b = append(b, "\r\n"...)
	}
	*m.wire = append(b, "\r\n"...)
	m.framed = true
	if m.isInMemory() {
		return m.load()
	}
	return nil
}

// isInMemory reports a body that leaves with the head.
func (m *message) isInMemory() bool {
	return m.length > 0 && m.length <= maxInMemory && m.req.GetBody != nil && !expectsContinue(m.req)
}

func appendTrailerNames(b []byte, h http.Header) []byte {
	before := "Trailer: "
	for name := range h {
		b = append(append(b, before...), name...)
		before = ","
	}
	if before == "," {
		b = append(b, "\r\n"...)
	}
	return b
}

// load puts the body behind the head.
func (m *message) load() error {
	b := *m.wire
	head := len(b)
	whole := head + int(m.length)
	if cap(b) < whole+1 {
		b = append(make([]byte, 0, whole+1), b...)
	}
	// One byte more than there should be: there must be none.
	n, err := io.ReadFull(m.body, b[head:whole+1])
	*m.wire = b[:head+n]
	closeErr := m.body.Close()
	m.body = nil
	switch {
	case err != nil && err != io.ErrUnexpectedEOF && err != io.EOF:
		return &bodyError{err}
	case int64(n) != m.length:
		return &bodyError{errBodyLength}
	case closeErr != nil:
		return &bodyError{closeErr}
	}
	return nil
}

// expectsContinue reports a body that is sent only when it is asked for.
func expectsContinue(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
}

// free gives the buffer back.
func (m *message) free() {
	if m.wire != nil && cap(*m.wire) <= 2*maxInMemory {
		wires.Put(m.wire)
	}
	m.wire = nil
}

// drop ends a message that is not sent, or not to its end, or was.
func (m *message) drop() error {
	m.free()
	if m.body == nil {
		return nil
	}
	body := m.body
	m.body = nil
	return body.Close()
}
