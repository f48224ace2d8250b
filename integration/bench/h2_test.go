package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// connectionsH2 share the [connections] of the load over HTTP/1.1.
const connectionsH2 = 4

// window is how much a server may send ahead: more than any load has.
const window = 1 << 30

// clientH2 is a connection of HTTP/2 over TLS: one goroutine, and no more work
// for a request than its frames.
type clientH2 struct {
	conn    *tls.Conn
	out     *bufio.Writer
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	decoder *hpack.Decoder
	status  string
	// taken is what came since the connection's window was last opened.
	taken   uint32
	next    uint32 // the next stream's number
	headers []hpack.HeaderField
	body    []byte
}

// connectH2 opens a connection. Certificates are not looked at: all of this is
// on loopback.
func connectH2(c *contestant) (*clientH2, error) {
	conn, err := tls.Dial("tcp", c.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.New("HTTP/2 is not offered")
	}
	k := &clientH2{conn: conn, out: bufio.NewWriterSize(conn, 16<<10), next: 1}
	k.framer = http2.NewFramer(k.out, bufio.NewReaderSize(conn, 32<<10))
	k.framer.SetReuseFrames()
	k.framer.SetMaxReadFrameSize(1 << 20)
	k.encoder = hpack.NewEncoder(&k.block)
	k.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			k.status = f.Value
		}
	})
	_, err = k.out.WriteString(http2.ClientPreface)
	return k, errors.Join(err,
		k.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}, http2.Setting{ID: http2.SettingEnablePush, Val: 0}),
		k.framer.WriteWindowUpdate(0, window))
}

// dialH2 is a caller over HTTP/2.
func dialH2(c *contestant, sandboxID string) (caller, func(), error) {
	k, err := connectH2(c)
	if err != nil {
		return nil, nil, err
	}
	k.prepare(c, pathOf(c, callPath), headersOf(sandboxID, "application/json", ""), callBody)
	return k, func() { k.conn.Close() }, nil
}

// prepare sets what is sent.
func (k *clientH2) prepare(c *contestant, path string, headers []header, body string) {
	k.body = []byte(body)
	k.headers = []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: c.address}, {Name: ":path", Value: path},
		{Name: "content-length", Value: fmt.Sprint(len(body))},
	}
	for _, h := range headers {
		k.headers = append(k.headers, hpack.HeaderField{Name: strings.ToLower(h.name), Value: h.value})
	}
}

// send begins a request; it leaves when the connection is read next.
func (k *clientH2) send() error {
	k.block.Reset()
	for _, f := range k.headers {
		if err := k.encoder.WriteField(f); err != nil {
			return err
		}
	}
	id := k.next
	k.next += 2
	if err := k.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: k.block.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	return k.framer.WriteData(id, true, k.body)
}

// receive reads one frame. ended says that a request has had its whole answer;
// data is good until the next call.
func (k *clientH2) receive() (stream uint32, data []byte, ended bool, err error) {
	if err := k.out.Flush(); err != nil {
		return 0, nil, false, err
	}
	frame, err := k.framer.ReadFrame()
	if err != nil {
		return 0, nil, false, err
	}
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		if _, err := k.decoder.Write(f.HeaderBlockFragment()); err != nil {
			return 0, nil, false, err
		}
		if k.status != "200" {
			return 0, nil, false, fmt.Errorf("the answer is %q", k.status)
		}
		return f.StreamID, nil, f.StreamEnded(), nil
	case *http2.DataFrame:
		if k.taken += f.Length; k.taken > window/2 {
			err = k.framer.WriteWindowUpdate(0, k.taken)
			k.taken = 0
		}
		return f.StreamID, f.Data(), f.StreamEnded(), err
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = k.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			err = k.framer.WritePing(true, f.Data)
		}
	case *http2.RSTStreamFrame:
		// A server that has answered in full may say so that it wants no more of the request (RFC 9113, section 8.1).
		if f.ErrCode != http2.ErrCodeNo {
			err = fmt.Errorf("stream %d was reset: %v", f.StreamID, f.ErrCode)
		}
	case *http2.GoAwayFrame:
		err = fmt.Errorf("the server goes: %v", f.ErrCode)
	}
	return 0, nil, false, err
}

func (k *clientH2) callUntil(over *atomic.Bool) (calls int, err error) {
	open := 0
	for ; open < connections/connectionsH2; open++ {
		if err := k.send(); err != nil {
			return calls, err
		}
	}
	got := map[uint32]int{}
	for open > 0 {
		id, data, ended, err := k.receive()
		if err != nil {
			return calls, err
		}
		if !bytes.HasPrefix(answer[got[id]:], data) {
			return calls, errOtherAnswer
		}
		got[id] += len(data)
		if !ended {
			continue
		}
		if got[id] != len(answer) {
			return calls, errOtherAnswer
		}
		delete(got, id)
		calls++
		if open--; over.Load() {
			continue
		}
		if err := k.send(); err != nil {
			return calls, err
		}
		open++
	}
	return calls, nil
}
