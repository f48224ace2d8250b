package portforward

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/caddy-e2b/gateway/handlers/websocket"
)

// ErrHandshake is an answer that opens no WebSocket: whoever is at the rocklet's
// address is no rocklet, or one without port-forward. Nothing was sent to a port.
var ErrHandshake = errors.New("no port-forward is offered at the rocklet's address")

// maxAnswer is the longest head of an answer that is read, in bytes.
const maxAnswer = 8 << 10

// Open shakes hands (RFC 6455 section 4.1) with the rocklet at address, to which
// c is a fresh connection, about a port inside its sandbox. It reads single
// bytes, and none behind the handshake.
func Open(c io.ReadWriter, address string, port uint16) error {
	key := websocket.NewKey()
	_, err := io.WriteString(c, "GET /portforward?port="+strconv.Itoa(int(port))+" HTTP/1.1\r\nHost: "+address+
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+key+"\r\n\r\n")
	if err != nil {
		return err
	}
	head, err := readHead(c)
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the answer is no HTTP", ErrHandshake)
	case !websocket.Switched(resp):
		return fmt.Errorf("%w: the answer is %d", ErrHandshake, resp.StatusCode)
	case resp.Header.Get("Sec-WebSocket-Accept") != websocket.AcceptOf(key), resp.Header.Get("Sec-WebSocket-Extensions") != "",
		resp.Header.Get("Sec-WebSocket-Protocol") != "":
		return fmt.Errorf("%w: it answers another handshake", ErrHandshake)
	}
	return nil
}

// readHead reads to the empty line.
func readHead(r io.Reader) ([]byte, error) {
	head := make([]byte, 0, 256)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if len(head) == maxAnswer {
			return nil, fmt.Errorf("%w: the head of the answer has no end", ErrHandshake)
		}
		head = append(head, 0)
		if _, err := io.ReadFull(r, head[len(head)-1:]); err != nil {
			return nil, err
		}
	}
	return head, nil
}
