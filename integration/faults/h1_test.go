package faults

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// call is a request.
type call struct {
	method, path string
	header       [][2]string
	body         string
	// progress, if any, is told how many bytes of the body have come, 0 for
	// none but the head.
	progress func(body int)
}

func (c call) tell(body int) {
	if c.progress != nil {
		c.progress(body)
	}
}

// seen is all that a client gets for a request, to the last byte, and how it
// ends.
type seen struct {
	status  int
	interim int // 1xx answers that came before it
	header  http.Header
	body    string
	trailer http.Header
	end     string
}

// How an answer ends.
const (
	// whole: it is complete, and the connection serves another request.
	whole = "whole"
	// last: it is complete, and the connection ends in an orderly way, as its
	// header has announced.
	last = "last"
	// cut: it is visibly incomplete. HTTP/1.1: no last chunk or a missing
	// length, then close_notify (TLS) and FIN. HTTP/2: RST_STREAM with
	// INTERNAL_ERROR, and the connection serves another request.
	cut = "cut"
)

// patience bounds what should not take long.
const patience = 10 * time.Second

// client sends one request on a connection of its own.
type client func(c call) (*seen, error)

func clientOf(t *testing.T, e *harness.Endpoint) client {
	_, address, _ := strings.Cut(e.URL, "://")
	if e.Transport == harness.TLS2 {
		config := e.TLS()
		config.NextProtos = []string{"h2"}
		return func(c call) (*seen, error) { return sendH2(address, config, c) }
	}
	var config *tls.Config
	if e.Transport == harness.TLS1 {
		config = e.TLS()
	}
	return func(c call) (*seen, error) { return sendH1(address, config, c) }
}

// dial connects, over TLS if there is a config.
func dial(address string, config *tls.Config) (net.Conn, error) {
	raw, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if config == nil {
		return raw, nil
	}
	config = config.Clone()
	config.ServerName = "127.0.0.1"
	return tls.Client(raw, config), nil
}

func sendH1(address string, config *tls.Config, c call) (*seen, error) {
	s := &seen{}
	conn, err := dial(address, config)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", c.method, c.path, address, len(c.body))
	for _, h := range c.header {
		fmt.Fprintf(&head, "%s: %s\r\n", h[0], h[1])
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n"+c.body); err != nil {
		return s, err
	}
	br := bufio.NewReader(conn)
	if err := s.readHead(br); err != nil {
		return s, err
	}
	c.tell(0)
	complete, err := s.readBody(br, c)
	if err != nil {
		return s, err
	}
	if !complete || s.header.Get("Connection") == "close" {
		// Orderly: io.EOF is FIN, over TLS it is close_notify before it.
		if b, err := io.ReadAll(br); len(b) > 0 || err != nil {
			return s, fmt.Errorf("after the answer: %q, %w", b, err)
		}
		s.end = cut
		if complete {
			s.end = last
		}
		return s, nil
	}
	// The connection goes on.
	fmt.Fprintf(conn, "GET /health HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: alive\r\nE2b-Sandbox-Port: 49983\r\n\r\n")
	again := &seen{}
	if err := again.readHead(br); err != nil || again.status != http.StatusNoContent {
		return s, fmt.Errorf("the connection does not go on: %d, %w", again.status, err)
	}
	s.end = whole
	return s, nil
}

// readHead reads a head, and the interim ones before it.
func (s *seen) readHead(br *bufio.Reader) error { return s.readHeadOf(br, http.StatusOK) }

// readHeadOf is readHead for an answer whose status is at least final.
func (s *seen) readHeadOf(br *bufio.Reader, final int) error {
	for {
		tp := textproto.NewReader(br)
		line, err := tp.ReadLine()
		if err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) < 2 || fields[0] != "HTTP/1.1" {
			return fmt.Errorf("status line %q", line)
		}
		if s.status, err = strconv.Atoi(fields[1]); err != nil {
			return err
		}
		h, err := tp.ReadMIMEHeader()
		if err != nil {
			return fmt.Errorf("half a head: %w", err)
		}
		s.header = http.Header(h)
		if s.status >= final {
			return nil
		}
		s.interim++
	}
}

// readBody reads the body and says whether it is complete. It is an error when
// the connection ended in any way but an orderly one.
func (s *seen) readBody(br *bufio.Reader, c call) (complete bool, err error) {
	if s.header.Get("Transfer-Encoding") == "chunked" {
		complete, err = s.readChunks(br, c)
	} else if length := s.header.Get("Content-Length"); length != "" {
		n, perr := strconv.Atoi(length)
		if perr != nil {
			return false, perr
		}
		b := make([]byte, n)
		n, err = io.ReadFull(br, b)
		s.body, complete = string(b[:n]), err == nil
	} else if s.status == http.StatusNoContent {
		return true, nil
	} else {
		return false, errors.New("the body has no length")
	}
	if errors.Is(err, syscall.ECONNRESET) {
		return complete, errors.New("the connection was reset")
	}
	if !complete && (err == io.EOF || err == io.ErrUnexpectedEOF) {
		err = nil
	}
	return complete, err
}

func (s *seen) readChunks(br *bufio.Reader, c call) (complete bool, err error) {
	var body strings.Builder
	defer func() { s.body = body.String() }()
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return false, err
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 16, 31)
		if err != nil {
			return false, err
		}
		if n == 0 {
			trailer, err := textproto.NewReader(br).ReadMIMEHeader()
			s.trailer = http.Header(trailer)
			return err == nil, err
		}
		chunk := make([]byte, n+2)
		m, err := io.ReadFull(br, chunk)
		body.Write(chunk[:min(uint64(m), n)])
		c.tell(body.Len())
		if err != nil {
			return false, err
		}
		if string(chunk[n:]) != "\r\n" {
			return false, fmt.Errorf("a chunk ends in %q", chunk[n:])
		}
	}
}
