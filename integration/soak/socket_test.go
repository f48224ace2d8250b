package soak

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	textFrame  = 0x81
	closeFrame = 0x88
)

// frame is one of fewer than 126 bytes. A mask is of zeros.
func frame(first byte, masked bool, payload string) []byte {
	b := []byte{first, byte(len(payload))}
	if masked {
		b[1] |= 0x80
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, payload...)
}

func readFrame(r *bufio.Reader) (first byte, payload string, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, "", err
	}
	b := make([]byte, int(head[1]&0x7f)+int(head[1]>>7)*4)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, "", err
	}
	return head[0], string(b[head[1]>>7*4:]), nil
}

// serveSockets answers each message on a port of a sandbox with the sandbox's id before it.
func serveSockets(l net.Listener, id string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			r := bufio.NewReader(c)
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
			for {
				first, payload, err := readFrame(r)
				if err != nil {
					return
				}
				if first == textFrame {
					payload = id + " " + payload
				}
				if _, err := c.Write(frame(first, false, payload)); err != nil || first == closeFrame {
					return
				}
			}
		}()
	}
}

// talk exchanges messages through a WebSocket, and says goodbye or leaves without a word.
func (s *stage) talk(b sandbox, messages int, leaves bool) error {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: longest}, "tcp", strings.TrimPrefix(s.url, "https://"), s.tls)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(longest))
	fmt.Fprintf(c, "GET /socket HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %d\r\nX-Access-Token: %s\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n", b.ID, socketPort, b.Token)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("no answer to a handshake: %w", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		text, err := io.ReadAll(resp.Body)
		return failure(answer{resp.StatusCode, text, err})
	}
	for i := range messages {
		want := fmt.Sprint(i)
		if _, err := c.Write(frame(textFrame, true, want)); err != nil {
			return fmt.Errorf("sending a message: %w", err)
		}
		first, got, err := readFrame(r)
		switch {
		case err != nil:
			return fmt.Errorf("a WebSocket ended without a close frame: %w", err)
		case first == closeFrame && len(got) >= 2:
			return closed(got)
		case first != textFrame || got != b.ID+" "+want:
			return fmt.Errorf("frame %#x %q came back for message %q", first, got, want)
		}
	}
	if leaves {
		return nil
	}
	if _, err := c.Write(frame(closeFrame, true, "\x03\xe8")); err != nil {
		return err
	}
	first, got, err := readFrame(r)
	if err == nil && first == closeFrame && got != "\x03\xe8" && len(got) >= 2 {
		return closed(got)
	}
	if err != nil || first != closeFrame {
		return fmt.Errorf("goodbye is answered with %#x %q, %w", first, got, errors.Join(err))
	}
	return nil
}

// closed reads a close frame that is not the answer to one.
func closed(payload string) error {
	code, reason := binary.BigEndian.Uint16([]byte(payload)), payload[2:]
	if code != 1011 {
		return fmt.Errorf("a WebSocket was closed with %d %q", code, reason)
	}
	if strings.Contains(reason, "was not found") {
		return told{isGone, reason}
	}
	return told{isLost, reason}
}
