package edge

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/heap"
)

// full is the answer of a sandbox that has no room for an upload.
const full = "HTTP/1.1 507 Insufficient Storage\r\nContent-Type: application/json\r\nConnection: close\r\n" +
	"Content-Length: 32\r\n\r\n" +
	`{"message":"no room","code":507}`

// refused has an upload refused before it is whole: by the sandbox, which takes some of
// it first, and by the gateway, for want of a key.
func refused(t *testing.T, transport harness.Transport, takes int64, try func(t *testing.T, g *rig, want string)) {
	t.Helper()
	t.Run("by the sandbox, "+string(transport), func(t *testing.T) {
		g := open(t, transport, "")
		g.forgetful = true
		g.script = func(r *http.Request, c net.Conn) bool {
			_, _ = io.CopyN(io.Discard, r.Body, takes)
			_, _ = io.WriteString(c, full)
			return false
		}
		try(t, g, "507")
	})
	t.Run("by the gateway, "+string(transport), func(t *testing.T) {
		u := newUpstream(t, answer200)
		access := "keys static {\nkey " + auth.DigestOf("e2b_a").String() + " a\n}\ntokens passthrough"
		try(t, &rig{u, inprocess.Start(t, strings.Replace(u.caddyfile(""), "keys off", access, 1), transport)}, "401")
	})
}

// insist uploads without a look at what comes back until it may write no more, and only
// then reads, as clients do that know nothing of early answers. written is how much
// it got rid of.
func (g *rig) insist(t *testing.T, framing string, size int64) (answer string, written int64) {
	t.Helper()
	c := g.connect(t)
	fmt.Fprintf(c, "POST /files?path=/x HTTP/1.1\r\n"+target+"%s\r\n\r\n", framing)
	piece := make([]byte, 64<<10)
	if strings.Contains(framing, "chunked") {
		piece = []byte("10000\r\n" + string(piece) + "\r\n")
	}
	for written < size {
		n, err := c.Write(piece)
		written += int64(n)
		if err != nil {
			break
		}
	}
	b, _ := io.ReadAll(c) // the connection may end as it likes behind the answer
	return string(b), written
}

// Field report I04: whoever does not want an upload says so while it comes, and the
// client hears it.
func TestAnEarlyAnswerReachesAClientThatGoesOn(t *testing.T) {
	const size = 200 << 20
	refused(t, harness.Cleartext, 1<<20, func(t *testing.T, g *rig, want string) {
		for _, framing := range []string{fmt.Sprint("Content-Length: ", size), "Transfer-Encoding: chunked"} {
			answer, written := g.insist(t, framing, size)
			if status(answer) != want || !strings.Contains(answer, `"code":`+want) {
				t.Errorf("%s: %q after %d bytes", framing, answer, written)
			}
			if written >= size {
				t.Errorf("%s: all of it was taken", framing)
			}
		}
	})
	refused(t, harness.TLS2, 100<<10, func(t *testing.T, g *rig, want string) {
		c := g.DialH2()
		id := c.Open(fields(map[string]string{":method": "POST"}, "content-length", fmt.Sprint(size))...)
		for range 10 {
			c.Send(id, strings.Repeat("x", 16<<10), false)
		}
		if s := c.Wait(id); s.Status != want || !strings.Contains(s.Body, `"code":`+want) {
			t.Errorf("%+v", s)
		}
		c.Until("the end of the upload", func() bool { return c.Stream(id).Reset != nil })
		s := c.Stream(id)
		// What was under way when the stream ended is answered with STREAM_CLOSED.
		late := s.Reset.Error() == "RST_STREAM STREAM_CLOSED"
		if !s.Ended || s.Reset.Error() != "RST_STREAM NO_ERROR" && !late || c.GoneAway() || c.Closed() != nil {
			t.Errorf("ended %t, %v, GOAWAY %t, %v", s.Ended, s.Reset, c.GoneAway(), c.Closed())
		}
	})
}

// Field report I05: a client that goes on costs the gateway neither memory nor time.
func TestRefusedUploadsAreNotTaken(t *testing.T) {
	const size = 1 << 30
	refused(t, harness.Cleartext, 1<<20, func(t *testing.T, g *rig, want string) {
		var all sync.WaitGroup
		var taken atomic.Int64
		watched := heap.Watch()
		for range 100 {
			all.Go(func() {
				answer, written := g.insist(t, fmt.Sprint("Content-Length: ", size), size)
				taken.Add(written)
				if status(answer) != want {
					t.Errorf("%q", answer)
				}
			})
		}
		all.Wait()
		grown := watched()
		t.Logf("%d KiB were taken of each, the heap grew by %d MiB", taken.Load()/100>>10, grown>>20)
		// The buffers of the system's sockets are in the first, our own clients in the second.
		if taken.Load()/100 > 32<<20 || grown > 64<<20 {
			t.Error("that is too much")
		}
	})
}

// Field report J06: what a sandbox does not take waits at the client, and nowhere else.
func TestASlowSandboxHoldsAnUploadBack(t *testing.T) {
	g := open(t, harness.Cleartext, "")
	disk := t.TempDir()
	t.Setenv("TMPDIR", disk)
	arrived, finish := make(chan struct{}), make(chan struct{})
	g.script = func(_ *http.Request, c net.Conn) bool {
		close(arrived)
		<-finish
		_, _ = io.WriteString(c, full)
		return false
	}
	c := g.connect(t)
	fmt.Fprintf(c, "POST /files?path=/x HTTP/1.1\r\n"+target+"Content-Length: %d\r\n\r\n", int64(5<<30))
	var written int64
	watched := heap.Watch()
	piece := make([]byte, 64<<10)
	for written < 5<<30 {
		// Who may not write for so long is held back.
		if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Write(piece)
		if written += int64(n); err != nil {
			break
		}
	}
	<-arrived
	grown := watched()
	if written > 64<<20 || grown > 16<<20 { // both connections' sockets have buffers
		t.Errorf("%d MiB went to a sandbox that takes nothing, the heap grew by %d MiB", written>>20, grown>>20)
	}
	close(finish)
	files, err := os.ReadDir(disk)
	for _, f := range files {
		t.Errorf("on the disk is %s", f.Name())
	}
	if err != nil {
		t.Error(err)
	}
}
