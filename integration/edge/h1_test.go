package edge

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// patience bounds what should not take long.
const patience = 20 * time.Second

// target is the head of a request for sandbox a, after its request line.
const target = "Host: sandbox.test\r\nE2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 49983\r\n"

// last is an honest request after which the connection ends. What it says is
// told apart from everything else by its path.
const last = "GET /files?path=/last HTTP/1.1\r\n" + target + "Connection: close\r\n\r\n"

// raw sends bytes on a connection of its own and returns all that comes back.
func (g *rig) raw(t *testing.T, bytes string) string {
	t.Helper()
	_, address, _ := strings.Cut(g.URL, "://")
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, bytes); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err, ok := err.(net.Error); ok && err.Timeout() {
		t.Fatalf("no end after %q to %q", b, bytes)
	}
	return string(b)
}

// status is that of the first answer, "" for none.
func status(answer string) string {
	line, _, _ := strings.Cut(answer, "\r\n")
	if fields := strings.Fields(line); len(fields) > 1 {
		return fields[1]
	}
	return ""
}

// refused sends a request that must be answered with one of the statuses and
// must not reach the upstream: nothing may, but an honest request after it.
func (g *rig) refused(t *testing.T, name, request string, statuses ...string) {
	t.Helper()
	answer := g.raw(t, request+last)
	ok := false
	for _, s := range statuses {
		ok = ok || s == status(answer)
	}
	if !ok {
		t.Errorf("%s: answered %.120q, want %v", name, answer, statuses)
	}
	got := g.take()
	if got != "" && (strings.Count(got, "\r\n\r\n") != 1 || !strings.HasPrefix(got, "GET /files?path=/last HTTP/1.1\r\n")) {
		t.Errorf("%s: reached the upstream: %q", name, got)
	}
}
