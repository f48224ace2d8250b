//go:build unix

package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"
)

// eventually waits until open connections are as many as wanted: net/http closes in its own time.
func eventually(t *testing.T, read func() Connected, open int64) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for read().Open != open {
		if time.Now().After(end) {
			t.Fatalf("%+v, want %d open", read(), open)
		}
		<-time.After(time.Millisecond)
	}
}

func TestConnectionsAreCountedByWhereTheyLead(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		role := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer role.Close()
		sandbox := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer sandbox.Close()
		address := role.Listener.Addr().String()
		c.Meter = new(Meter)
		defer c.Meter.Know(address)()
		tr := New(c)
		for _, life := range []string{"life1", "life2", "life2"} {
			get(t, tr, life, address)
		}
		get(t, tr, "life1", sandbox.Listener.Addr().String())
		atRole := func() Connected { return c.Meter.Read(address) }
		if got := atRole(); got.Open != 2 || got.Dialed != 2 {
			t.Errorf("of the role: %+v", got)
		}
		if got := c.Meter.ReadSandboxes(); got.Open != 1 || got.Dialed != 1 {
			t.Errorf("of sandboxes: %+v", got)
		}
		if idle := tr.Idle(); c.Client == Lean && idle != 3 {
			t.Errorf("%d idle", idle)
		}
		tr.CloseIdle()
		eventually(t, atRole, 0)
		eventually(t, c.Meter.ReadSandboxes, 0)
		if idle := tr.Idle(); idle != 0 {
			t.Errorf("%d idle", idle)
		}
	})
}

// Whoever sends a request may close its connection, and the pool once more.
func TestAConnectionIsCountedOutOnce(t *testing.T) {
	ours, _ := pair(t)
	var counts Connections
	counts.opened(ours)
	counts.open.Add(1) // of another one
	_ = ours.Close()
	_ = ours.Close()
	if n := counts.read().Open; n != 1 {
		t.Errorf("%d open, want the other one", n)
	}
}

func TestAnAddressIsKnownUntilItsLastUserForgetsIt(t *testing.T) {
	var m Meter
	first, second := m.Know("a:1"), m.Know("a:1")
	m.of("a:1").dialed.Add(1)
	first()
	if m.Read("a:1").Dialed != 1 || m.ReadSandboxes().Dialed != 0 {
		t.Error("forgotten while it has a user")
	}
	second()
	if m.Read("a:1").Dialed != 0 {
		t.Error("remembered without a user")
	}
	if len(m.known) != 0 {
		t.Error("it takes memory")
	}
}

func TestWhyNoConnectionWasMadeIsToldApart(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for want, errs := range map[DialFailure][]error{
		DialRefused:     {dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))},
		DialUnreachable: {dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), dial(os.NewSyscallError("connect", syscall.ENETUNREACH))},
		DialTimeout:     {dial(os.ErrDeadlineExceeded), dial(context.DeadlineExceeded), dial(os.NewSyscallError("connect", syscall.ETIMEDOUT))},
		DialUnresolved:  {dial(&net.DNSError{IsNotFound: true}), dial(&net.DNSError{IsTimeout: true})},
		DialOther:       {dial(os.NewSyscallError("socket", syscall.EMFILE)), errors.New("else")},
	} {
		for _, err := range errs {
			if got := whyNotDialed(fmt.Errorf("wrapped: %w", err)); got != want {
				t.Errorf("%v is %s, want %s", err, got, want)
			}
		}
	}
}

func TestAFailedDialIsCountedAndOneThatNobodyWantsIsNot(t *testing.T) {
	eachClient(t, func(t *testing.T, c Config) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		l.Close()
		c.Meter = new(Meter)
		defer c.Meter.Know(address)()
		tr := New(c)
		if _, err := tr.RoundTrip(request(t, "GET", "life1", address, nil)); err == nil {
			t.Fatal("no error")
		}
		var want Connected
		want.Failed[DialRefused] = 1
		if got := c.Meter.Read(address); got != want {
			t.Errorf("%+v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := tr.connect(ctx, "tcp", Host("life1", address)); err == nil {
			t.Fatal("no error")
		}
		if got := c.Meter.Read(address); got != want {
			t.Errorf("the client had left: %+v", got)
		}
	})
}

func TestAFailureOfTLSIsCountedAsThat(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	address := s.Listener.Addr().String()
	meter := new(Meter)
	defer meter.Know(address)()
	r := request(t, "GET", "life1", address, nil)
	r.URL = &url.URL{Scheme: "https", Host: Host("life1", address), Opaque: "/x"}
	if _, err := New(Config{Meter: meter}).RoundTrip(r); err == nil {
		t.Fatal("a certificate of nobody's was taken")
	}
	if got := meter.Read(address); got.Failed[DialTLS] != 1 || got.Dialed != 1 || got.Open != 0 {
		t.Errorf("%+v", got)
	}
}

func TestATunnelIsCountedLikeAnyConnection(t *testing.T) {
	k := newRocklet(t, serveHTTP)
	meter := new(Meter)
	tr := New(Config{Meter: meter})
	resp, err := k.through(t, tr, "GET", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if got := meter.ReadSandboxes(); got.Open != 1 || got.Dialed != 1 {
		t.Errorf("%+v", got)
	}
	tr.CloseIdle()
	eventually(t, meter.ReadSandboxes, 0)
}

func TestAPortThatTheRockletRefusesIsAFailureOfTheTunnel(t *testing.T) {
	k := newRocklet(t, func(c net.Conn, r *bufio.Reader) { tell(c, sentClose, "\x03\xf0no"); io.Copy(io.Discard, r) })
	meter := new(Meter)
	tr := New(Config{Meter: meter})
	tr.refusalWait = 2 * time.Second // a slow machine takes its time
	if _, err := k.through(t, tr, "GET", nil); err == nil {
		t.Fatal("no error")
	}
	if got := meter.ReadSandboxes(); got.Failed[DialTunnel] != 1 || got.Open != 0 {
		t.Errorf("%+v", got)
	}
}
