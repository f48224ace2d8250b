package websocket

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// halfOpen is a pipe whose other end takes no notice of the end of a direction.
type halfOpen struct{ net.Conn }

func (halfOpen) CloseWrite() error { return nil }

// deserted is a tunnel whose client has sent something and then ended its
// direction. It runs on the clock of a bubble.
type deserted struct {
	client, sandbox net.Conn // the far ends
	done            chan Result
	begun           time.Time
}

func desert(t *testing.T, stall time.Duration, sent []byte) *deserted {
	client, near := net.Pipe()
	upstream, sandbox := net.Pipe()
	d := &deserted{client, sandbox, make(chan Result, 1), time.Now()}
	tunnel := Tunnel{
		Client: near, ClientReader: strings.NewReader(string(sent)), Upstream: halfOpen{upstream}, Stall: stall,
		Why: func(err error) (uint16, string) {
			t.Errorf("asked why: %v", err)
			return 1011, "why"
		},
	}
	go io.Copy(io.Discard, sandbox)
	go func() { d.done <- tunnel.Run(context.Background()) }()
	return d
}

// wantEnd expects the end at a time after the beginning.
func (d *deserted) wantEnd(t *testing.T, want error, at time.Duration) {
	t.Helper()
	res := <-d.done
	if after := time.Since(d.begun); after.Round(time.Microsecond) != at || res.Lost || !errors.Is(res.ClientErr, want) {
		t.Errorf("%+v after %v, want %v after %v", res, after, want, at)
	}
}

var (
	aMessage  = wsFrame(0x81, true, "a question")
	aGoodbye  = wsFrame(0x88, true, "\x03\xe8")
	fromThere = wsFrame(0x81, false, "part of an answer")
)

// Field report K05.
func TestAfterTheClientsEndTheSilenceOfTheSandboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desert(t, 5*time.Minute, aMessage)
		go io.Copy(io.Discard, d.client)
		d.wantEnd(t, errDeserted, 5*time.Minute)
	})
}

func TestASandboxThatGoesOnKeepsTheTunnelAfterTheClientsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desert(t, 5*time.Minute, aMessage)
		go io.Copy(io.Discard, d.client)
		for range 3 {
			<-time.After(4 * time.Minute)
			if _, err := d.sandbox.Write(fromThere); err != nil {
				t.Error(err)
			}
		}
		d.wantEnd(t, errDeserted, 17*time.Minute)
	})
}

func TestAfterTheClientsGoodbyeTheSandboxHasAMomentForItsOwn(t *testing.T) {
	for _, stall := range []time.Duration{0, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d := desert(t, stall, aGoodbye)
			go io.Copy(io.Discard, d.client)
			d.wantEnd(t, nil, lastWords)
		})
	}
}

// Field report K05.
func TestWithoutABoundTheSandboxMayBeSilentAfterTheClientsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desert(t, 0, aMessage)
		go io.Copy(io.Discard, d.client)
		<-time.After(24 * time.Hour)
		if _, err := d.sandbox.Write(fromThere); err != nil {
			t.Error(err)
		}
		d.sandbox.Close()
		d.wantEnd(t, nil, 24*time.Hour)
	})
}

// The sandbox is not silent while the client holds it up.
func TestASlowClientIsNoSilenceOfTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desert(t, 0, aGoodbye)
		go d.sandbox.Write(append(fromThere, fromThere...))
		<-time.After(5 * lastWords)
		got := make([]byte, 2*len(fromThere))
		if _, err := io.ReadFull(d.client, got); err != nil {
			t.Error(err)
		}
		go io.Copy(io.Discard, d.client)
		d.wantEnd(t, nil, 6*lastWords)
	})
}
