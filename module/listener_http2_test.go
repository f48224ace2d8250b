package module_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// Field report I02: one connection for all sandboxes.
func TestManyStreamsLeaveRoomForShortCallsOnTheConnection(t *testing.T) {
	finish := make(chan struct{})
	defer close(finish)
	g := inprocess.Start(t, wrapped(newRock(t, slowRock(finish)), "e2b", "one"), harness.TLS2)
	c := g.DialH2()
	streams := make([]uint32, 300)
	for i := range streams {
		streams[i] = startStream(c)
	}
	for _, s := range streams {
		begun(c, s)
	}
	if s := c.Wait(c.Request("GET", "/health", "", dataHeaders...)); s.Status != "204" {
		t.Errorf("%+v", s)
	}
}

// Field report I02. RFC 9113 section 5.1.2 leaves the server the choice between
// REFUSED_STREAM and PROTOCOL_ERROR; net/http takes the second once the client
// has acknowledged the limit.
func TestAStreamTooManyIsResetAndTheConnectionStays(t *testing.T) {
	finish := make(chan struct{})
	g := inprocess.Start(t, wrapped(newRock(t, slowRock(finish)), "e2b {\nmax_concurrent_streams 2\n}", "one"), harness.TLS2)
	c := g.DialH2()
	streams := []uint32{startStream(c), startStream(c)}
	for _, s := range streams {
		begun(c, s)
	}
	if s := c.Wait(c.Request("GET", "/version", "")); s.Reset == nil {
		t.Errorf("%+v", s)
	}
	close(finish)
	for _, id := range streams {
		if s := c.Wait(id); s.Body != whole {
			t.Errorf("%+v", s)
		}
	}
	if got := versionH2(c); got != "one" || c.GoneAway() {
		t.Errorf("%q, GOAWAY %t", got, c.GoneAway())
	}
}

// Field report C11.
func TestAClientThatAnswersNoPingIsDropped(t *testing.T) {
	left := make(chan struct{})
	rock := newRock(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", connectStream)
		_, _ = w.Write(envelope.Append(nil, 0, []byte(`"begin"`)))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	g := inprocess.Start(t, wrapped(rock, "e2b {\nping_interval 200ms\nping_timeout 200ms\n}", "one"), harness.TLS2)
	c := g.DialH2()
	begun(c, startStream(c))
	c.Deafen()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the sandbox still serves a client that is gone")
	}
	c.Until("the end of the connection", func() bool { return c.Closed() != nil })
}
