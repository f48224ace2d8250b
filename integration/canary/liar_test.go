package canary

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

// newLiar is a Redis that refuses every command and quotes it, as old servers
// and proxies do with those they do not know: HELLO 3 AUTH <user> <password>
// comes back as part of the error.
func newLiar(t *testing.T) (address string) {
	t.Helper()
	return loopback.Serve(t, quoteCommands)
}

func quoteCommands(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(c, "-ERR unknown command `%s`, with args beginning with: `%s`\r\n", args[0], strings.Join(args[1:], "`, `")); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) (args []string, err error) {
	n, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	for range n {
		size, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(in, arg); err != nil {
			return nil, err
		}
		args = append(args, string(arg[:size]))
	}
	return args, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil || line == "" || line[0] != kind {
		return 0, fmt.Errorf("%q: %w", line, io.ErrUnexpectedEOF)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || n < 0 || n > 1<<20 {
		return 0, fmt.Errorf("%q: %w", line, io.ErrUnexpectedEOF)
	}
	return n, nil
}
