package websocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a TCP connection, seen from both sides.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{c, s} {
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// A client that takes nothing for too long is dropped, with all that it holds
// up.
func TestAStuckClientIsDroppedInTheEnd(t *testing.T) {
	client, near := pair(t)
	upstream, sandbox := pair(t)
	done := make(chan Result, 1)
	tunnel := Tunnel{Client: near, ClientReader: near, Upstream: upstream, Stall: 300 * time.Millisecond}
	go func() { done <- tunnel.Run(context.Background()) }()
	fill(sandbox, wsFrame(0x82, false, strings.Repeat("x", 1<<20)))
	if res := <-done; !errors.Is(res.ClientErr, os.ErrDeadlineExceeded) || res.Lost {
		t.Errorf("%+v", res)
	}
	_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, client); err != nil {
		t.Error(err)
	}
}

// rig is a tunnel that runs between two connections.
type rig struct {
	client, sandbox *net.TCPConn // the far ends
	end             context.CancelCauseFunc
	done            chan Result
	asked           chan error // with what Why was asked
}

func newRig(t *testing.T, wrap func(net.Conn) net.Conn) *rig {
	t.Helper()
	r := &rig{done: make(chan Result, 1), asked: make(chan error, 1)}
	var client, upstream *net.TCPConn
	r.client, client = pair(t)
	upstream, r.sandbox = pair(t)
	ctx, end := context.WithCancelCause(context.Background())
	r.end = end
	t.Cleanup(func() { end(nil) })
	tunnel := Tunnel{Client: wrap(client), ClientReader: client, Upstream: upstream, Why: func(err error) (uint16, string) {
		r.asked <- err
		return 1011, "why"
	}}
	go func() { r.done <- tunnel.Run(ctx) }()
	return r
}

func asIs(c net.Conn) net.Conn { return c }

var errEnd = errors.New("the gateway ends it")

// fill writes until nothing more is taken.
func fill(c net.Conn, b []byte) {
	for err := error(nil); err == nil; {
		_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = c.Write(b)
	}
}

// A client that does not read holds up the sandbox, and nothing else.
func TestAStuckClientIsNotWaitedForWhenTheGatewayEnds(t *testing.T) {
	r := newRig(t, asIs)
	fill(r.sandbox, wsFrame(0x82, false, strings.Repeat("x", 1<<20)))
	begun := time.Now()
	r.end(errEnd)
	res := <-r.done
	if d := time.Since(begun); res.ClientErr == nil || d > lastWords+frameGrace+time.Second {
		t.Errorf("%+v after %v", res, d)
	}
}

func TestAStuckSandboxIsNotWaitedForWhenTheGatewayEnds(t *testing.T) {
	r := newRig(t, asIs)
	fill(r.client, wsFrame(0x82, true, strings.Repeat("x", 1<<20)))
	r.end(errEnd)
	if rest, err := io.ReadAll(r.client); !bytes.Equal(rest, CloseFrame(1011, "why")) {
		t.Errorf("%q, %v", rest, err)
	}
	if res := <-r.done; !res.Lost || res.torn || <-r.asked != errEnd {
		t.Errorf("%+v", res)
	}
}

// What the client sends to a sandbox that is lost must not reset the client's
// connection before it has read why.
func TestBytesForALostSandboxDoNotHideTheReason(t *testing.T) {
	r := newRig(t, asIs)
	sent := wsFrame(0x82, true, strings.Repeat("x", 1<<10))
	_, _ = r.client.Write(sent)
	if _, err := io.ReadFull(r.sandbox, make([]byte, len(sent))); err != nil {
		t.Fatal(err)
	}
	_ = r.sandbox.SetLinger(0)
	r.sandbox.Close()
	<-r.asked
	_, _ = r.client.Write(wsFrame(0x82, true, strings.Repeat("y", 1<<16)))
	if rest, err := io.ReadAll(r.client); !bytes.Equal(rest, CloseFrame(1011, "why")) || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if res := <-r.done; !res.Lost {
		t.Errorf("%+v", res)
	}
}

// An access log of Caddy hides that a connection's directions can end one by
// one.
func TestAConnectionThatCannotBeHalfClosedIsClosedAfterTheGoodbyes(t *testing.T) {
	r := newRig(t, func(c net.Conn) net.Conn { return struct{ net.Conn }{c} })
	r.end(errEnd)
	want := CloseFrame(1011, "why")
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.client, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%q, %v", got, err)
	}
	_, _ = r.client.Write(wsFrame(0x88, true, "\x03\xf3"))
	begun := time.Now()
	if rest, err := io.ReadAll(r.client); len(rest) != 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if d := time.Since(begun); d > lastWords/2 {
		t.Errorf("closed after %v", d)
	}
	<-r.done
}

// The client has said goodbye, so nothing is lost when the sandbox just leaves. One that is
// lost may not have heard it, nor what was said before.
func TestAClientThatSaidGoodbyeIsAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		leave func(*net.TCPConn)
		want  []byte
		res   Result
	}{
		"it leaves":    {func(c *net.TCPConn) { c.Close() }, CloseFrame(1000, ""), Result{}},
		"it is lost":   {func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, CloseFrame(1011, "why"), Result{Lost: true}},
		"in a message": {func(c *net.TCPConn) { _, _ = c.Write(fromThere[:5]); c.Close() }, fromThere[:5], Result{}},
	} {
		r := newRig(t, asIs)
		_, _ = r.client.Write(aGoodbye)
		if _, err := io.ReadFull(r.sandbox, make([]byte, len(aGoodbye))); err != nil {
			t.Fatal(err)
		}
		tc.leave(r.sandbox)
		if got, err := io.ReadAll(r.client); !bytes.Equal(got, tc.want) || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if res := <-r.done; res != tc.res {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func TestASandboxMayTakeItsTimeAfterItsGoodbye(t *testing.T) {
	r := newRig(t, asIs)
	_, _ = r.sandbox.Write(CloseFrame(1000, ""))
	_ = r.sandbox.CloseWrite()
	if _, err := io.ReadFull(r.client, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	goodbye := wsFrame(0x88, true, "\x03\xe8")
	_, _ = r.client.Write(goodbye)
	got := make([]byte, len(goodbye))
	if _, err := io.ReadFull(r.sandbox, got); err != nil || !bytes.Equal(got, goodbye) {
		t.Errorf("%q, %v", got, err)
	}
	if res := <-r.done; res != (Result{}) {
		t.Errorf("%+v", res)
	}
}

// 10,000 sockets that are idle must not hold 64 KiB each.
func TestAnIdleDirectionHoldsLittle(t *testing.T) {
	var r room
	for _, n := range []int{1, littleRoom, largeRoom, littleRoom + 1, littleRoom, 5} {
		b := r.next()
		if n > len(b) {
			t.Fatalf("%d bytes do not fit into %d", n, len(b))
		}
		for i := range b[:n] {
			b[i] = byte(n)
		}
		if got := r.got(n); len(got) != n || got[0] != byte(n) || got[n-1] != byte(n) {
			t.Errorf("%d bytes came back as %d", n, len(got))
		}
	}
	if r.large != nil {
		t.Error("it waits in the large buffer")
	}
}
