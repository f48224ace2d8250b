package harness

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// settle waits until each address has as many listening sockets as wanted.
//
// Caddy closes the listeners of a config that it replaced or stopped in the
// background, and says to nobody when it is done. Until then the old and the
// new socket share the port (SO_REUSEPORT), and a connection that the kernel
// gave to the old one is lost when that closes. A test that reloads means the
// time after that. Where the kernel does not tell (only Linux has
// /proc/net/tcp) nothing is waited for.
func settle(t testing.TB, addresses map[string]string, want int) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for _, address := range addresses {
		for {
			n, err := listening(address)
			if errors.Is(err, os.ErrNotExist) || err == nil && n == want {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-poll.C:
			case <-deadline.C:
				t.Fatalf("%s has %d listening sockets, want %d", address, n, want)
			}
		}
	}
}

// listening counts the sockets that listen on an IPv4 address.
func listening(address string) (n int, err error) {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, err
	}
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	defer table.Close()
	// The kernel prints the four bytes as one number of its own byte order.
	ip := binary.NativeEndian.Uint32(net.IP(a.Addr().AsSlice()))
	local := fmt.Sprintf("%08X:%04X", ip, a.Port())
	const listen = "0A" // TCP_LISTEN
	lines := bufio.NewScanner(table)
	lines.Scan() // the names of the columns
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[3] != listen {
			break // those that listen come first; there may be ten thousands of others
		}
		if f[1] == local {
			n++
		}
	}
	return n, lines.Err()
}
