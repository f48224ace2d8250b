package faults

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2 is an HTTP/2 connection at the level of frames.
type h2 struct {
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

func sendH2(address string, config *tls.Config, c call) (*seen, error) {
	conn, err := dial(address, config)
	if err != nil {
		return new(seen), err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return new(seen), err
	}
	h := &h2{Framer: http2.NewFramer(conn, conn)}
	h.enc = hpack.NewEncoder(&h.block)
	h.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.MaxHeaderListSize = 1 << 20
	// A window that needs no updates.
	if err := h.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 28}); err != nil {
		return new(seen), err
	}
	if err := h.WriteWindowUpdate(0, 1<<28); err != nil {
		return new(seen), err
	}
	if err := h.request(1, address, c); err != nil {
		return new(seen), err
	}
	s, err := h.response(1, c)
	if err != nil {
		return s, err
	}
	health := call{method: http.MethodGet, path: "/health", header: [][2]string{{"E2b-Sandbox-Id", "alive"}, {"E2b-Sandbox-Port", "49983"}}}
	if err := h.request(3, address, health); err != nil {
		return s, err
	}
	again, err := h.response(3, health)
	if err != nil || again.status != http.StatusNoContent || again.end != whole {
		return s, fmt.Errorf("the connection does not go on: %+v, %w", again, err)
	}
	return s, nil
}

func (h *h2) request(stream uint32, address string, c call) error {
	h.block.Reset()
	fields := [][2]string{{":method", c.method}, {":scheme", "https"}, {":authority", address}, {":path", c.path}}
	if c.body != "" {
		fields = append(fields, [2]string{"content-length", strconv.Itoa(len(c.body))})
	}
	for _, f := range append(fields, c.header...) {
		if err := h.enc.WriteField(hpack.HeaderField{Name: strings.ToLower(f[0]), Value: f[1]}); err != nil {
			return err
		}
	}
	err := h.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: h.block.Bytes(), EndHeaders: true, EndStream: c.body == "",
	})
	if err != nil || c.body == "" {
		return err
	}
	return h.WriteData(stream, true, []byte(c.body))
}

// response reads until the stream has ended. A GOAWAY is an error: there is no
// place for it in any of these tests.
func (h *h2) response(stream uint32, c call) (*seen, error) {
	s := &seen{}
	var body strings.Builder
	defer func() { s.body = body.String() }()
	for {
		f, err := h.ReadFrame()
		if err != nil {
			return s, fmt.Errorf("no end of the stream: %w", err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = h.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = h.WritePing(true, f.Data)
			}
		case *http2.GoAwayFrame:
			return s, fmt.Errorf("GOAWAY %v", f.ErrCode)
		}
		if err != nil {
			return s, err
		}
		if f.Header().StreamID != stream {
			continue
		}
		ended := false
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			s.fields(f)
			c.tell(body.Len())
			ended = f.StreamEnded()
		case *http2.DataFrame:
			body.Write(f.Data())
			c.tell(body.Len())
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeInternal {
				return s, fmt.Errorf("RST_STREAM %v", f.ErrCode)
			}
			s.end = cut
			return s, nil
		}
		if ended {
			s.end = whole
			return s, nil
		}
	}
}

// fields reads a head, or the trailers after it.
func (s *seen) fields(f *http2.MetaHeadersFrame) {
	h := http.Header{}
	for _, field := range f.RegularFields() {
		h.Add(field.Name, field.Value)
	}
	if s.status >= 200 {
		s.trailer = h
		return
	}
	s.header = h
	s.status, _ = strconv.Atoi(f.PseudoValue("status"))
	if s.status < 200 {
		s.interim++
	}
}
