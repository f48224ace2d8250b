package harness

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// H2 is an HTTP/2 connection that shows its frames, for what a client library
// hides: who sent GOAWAY, which settings hold, how a stream was reset. It
// answers SETTINGS, and PING unless it is deaf. It opens no window, so that a stream
// takes 64 KiB, but for those of Open.
type H2 struct {
	t    testing.TB
	conn net.Conn

	mu     sync.Mutex // guards writing and what follows
	framer *http2.Framer
	next   uint32
	deaf   bool

	opened map[uint32]bool // streams of Open, under state

	changed  chan struct{} // has a value when something below may be new
	state    sync.Mutex
	streams  map[uint32]*H2Stream
	settings map[http2.SettingID]uint32
	goAway   bool
	ended    error
}

// H2Stream is what has come back on a stream.
type H2Stream struct {
	Status string
	Header http.Header
	Body   string
	// Ended is set by END_STREAM, Reset by RST_STREAM.
	Ended bool
	Reset error
}

// DialH2 opens a connection to the gateway, which must be one of [TLS2]. It
// closes with the test.
func (e *Endpoint) DialH2() *H2 {
	e.t.Helper()
	config := e.TLS()
	config.NextProtos = []string{"h2"}
	_, address, _ := strings.Cut(e.URL, "://")
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { conn.Close() })
	c := &H2{
		t: e.t, conn: conn, framer: http2.NewFramer(conn, conn), next: 1,
		changed: make(chan struct{}, 1), streams: map[uint32]*H2Stream{}, opened: map[uint32]bool{}, settings: map[http2.SettingID]uint32{},
	}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		e.t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		e.t.Fatal(err)
	}
	go c.read()
	return c
}

// Deafen makes the connection answer no PING any more.
func (c *H2) Deafen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = true
}

// Request sends a request with headers ("name", "value", …) and a body and
// returns its stream.
func (c *H2) Request(method, path, body string, headers ...string) (stream uint32) {
	c.t.Helper()
	fields := []string{":method", method, ":scheme", "https", ":authority", c.conn.RemoteAddr().String(), ":path", path}
	for i := 0; i+1 < len(headers); i += 2 {
		fields = append(fields, strings.ToLower(headers[i]), headers[i+1])
	}
	return c.Fields(body, fields...)
}

// Fields sends a request of these very fields ("name", "value", …), pseudo
// headers included, whether they make a request or not.
func (c *H2) Fields(body string, fields ...string) (stream uint32) {
	c.t.Helper()
	return c.headers(body == "", body, fields)
}

// Open sends a request of these very fields whose body is to come, see Send, and takes
// all that comes back.
func (c *H2) Open(fields ...string) (stream uint32) {
	c.t.Helper()
	return c.headers(false, "", fields)
}

// Send sends a part of a body, of at most 16 KiB, or its end, or both. It keeps to no
// window: whoever sends much must see to it that it is read.
func (c *H2) Send(stream uint32, part string, end bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.framer.WriteData(stream, end, []byte(part)); err != nil {
		c.t.Fatal(err)
	}
}

// Reset ends a stream, as a client that leaves.
func (c *H2) Reset(stream uint32) {
	c.write(func() error { return c.framer.WriteRSTStream(stream, http2.ErrCodeCancel) })
}

func (c *H2) headers(end bool, body string, fields []string) (stream uint32) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	stream, c.next = c.next, c.next+2
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.state.Lock()
	c.streams[stream] = &H2Stream{}
	c.opened[stream] = !end && body == ""
	c.state.Unlock()
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end,
	})
	if err == nil && body != "" {
		err = c.framer.WriteData(stream, true, []byte(body))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return stream
}

func (c *H2) read() {
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			c.note(func() { c.ended = err })
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.note(func() {
					_ = f.ForeachSetting(func(s http2.Setting) error { c.settings[s.ID] = s.Val; return nil })
				})
				c.write(func() error { return c.framer.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.write(func() error {
					if c.deaf {
						return nil
					}
					return c.framer.WritePing(true, f.Data)
				})
			}
		case *http2.MetaHeadersFrame:
			c.stream(f.StreamID, func(s *H2Stream) {
				if s.Status == "" {
					s.Status = f.PseudoValue("status")
					s.Header = http.Header{}
					for _, field := range f.RegularFields() {
						s.Header.Add(field.Name, field.Value)
					}
				}
				s.Ended = f.StreamEnded()
			})
		case *http2.DataFrame:
			c.stream(f.StreamID, func(s *H2Stream) {
				s.Body += string(f.Data())
				s.Ended = f.StreamEnded()
			})
			c.openWindow(f.StreamID, f.Length)
		case *http2.RSTStreamFrame:
			c.stream(f.StreamID, func(s *H2Stream) { s.Reset = fmt.Errorf("RST_STREAM %v", f.ErrCode) })
		case *http2.GoAwayFrame:
			c.note(func() { c.goAway = true })
		}
	}
}

// openWindow lets as much come as has come, on a stream of Open.
func (c *H2) openWindow(stream, n uint32) {
	c.state.Lock()
	opened := c.opened[stream]
	c.state.Unlock()
	if opened && n > 0 {
		c.write(func() error {
			return errors.Join(c.framer.WriteWindowUpdate(0, n), c.framer.WriteWindowUpdate(stream, n))
		})
	}
}

func (c *H2) write(f func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = f() // read learns of a connection that is gone
}

func (c *H2) stream(id uint32, f func(*H2Stream)) {
	c.note(func() {
		if s := c.streams[id]; s != nil {
			f(s)
		}
	})
}

func (c *H2) note(f func()) {
	c.state.Lock()
	f()
	c.state.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Stream is what has come back on a stream so far.
func (c *H2) Stream(id uint32) H2Stream {
	c.state.Lock()
	defer c.state.Unlock()
	return *c.streams[id]
}

// Setting is a setting of the gateway's, 0 when it sent none.
func (c *H2) Setting(id http2.SettingID) uint32 {
	c.state.Lock()
	defer c.state.Unlock()
	return c.settings[id]
}

// GoneAway reports whether the gateway has sent GOAWAY.
func (c *H2) GoneAway() bool {
	c.state.Lock()
	defer c.state.Unlock()
	return c.goAway
}

// Closed is the error that ended the connection, nil while it lives.
func (c *H2) Closed() error {
	c.state.Lock()
	defer c.state.Unlock()
	return c.ended
}

// Until waits until something holds of the connection. One at a time may wait.
func (c *H2) Until(what string, holds func() bool) {
	c.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !holds() {
		select {
		case <-c.changed:
		case <-limit.C:
			c.t.Fatalf("waiting for %s in vain; the connection: %v", what, errors.Join(c.Closed(), fmt.Errorf("GOAWAY %t", c.GoneAway())))
		}
	}
}

// Wait waits for the end of a stream and returns it.
func (c *H2) Wait(id uint32) H2Stream {
	c.t.Helper()
	c.Until(fmt.Sprintf("the end of stream %d", id), func() bool {
		s := c.Stream(id)
		return s.Ended || s.Reset != nil || c.Closed() != nil
	})
	return c.Stream(id)
}
