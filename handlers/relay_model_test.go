package handlers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/routing"
)

// The model of the stream relay. What a sandbox sends, how that comes in pieces, and what ends it and when, is a play; it is played on the real
// gateway in a bubble, and what the client has got is held against the promises: the whole envelopes of what was sent and exactly one end, with the true
// cause, or an abort; never two ends, never half an envelope, never a byte after the end.
//
// Each of these faults was planted in the relay and found: the end is not written, or written twice, or although an envelope is torn; that it is torn goes
// unseen; half an envelope is passed on; what comes after the last envelope is read on, or is passed on with it (by the long streams only); a result that was
// delivered is called lost.

// ending is what happens when a sandbox has sent all that it sends.
type ending string

const (
	endsEOF      ending = "the body ends"
	endsTrailers ending = "the body ends with trailers"
	endsReset    ending = "the connection is reset"
	endsDying    ending = "the connection is reset, and the sandbox is gone"
	endsDeadline ending = "silence until the client's deadline"
	endsKilled   ending = "silence until the sandbox is known to be gone"
	endsDrain    ending = "silence until the gateway drains"
	endsLeaving  ending = "silence until the client leaves"
)

var endings = []ending{endsEOF, endsTrailers, endsReset, endsDying, endsDeadline, endsKilled, endsDrain, endsLeaving}

// drama is what is played.
type drama struct {
	contentType string
	pieces      []string // that the sandbox sends, one at a time
	ending
	// takes is how many bytes the client takes until its connection breaks, -1 for all.
	takes int
}

func (d drama) String() string {
	return fmt.Sprintf("%s, %q, then %s; the client takes %d", d.contentType, d.pieces, d.ending, d.takes)
}

// mostHeld is the longest envelope that the relay holds in plays.
const mostHeld = 40

// theatre is a gateway in a bubble, with a sandbox that plays its part. Plays follow one another there.
type theatre struct {
	gateway  *Gateway
	routes   *routing.Cache
	registry *registry
	now      drama
}

// inTheatre opens a theatre for as long as play takes.
func inTheatre(t *testing.T, play func(*theatre)) {
	synctest.Test(t, func(t *testing.T) {
		h := &theatre{registry: &registry{push: make(chan string)}}
		endpoint, err := routing.ParseEndpoint("http://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		role := func() *routing.Balancer { return routing.NewBalancer([]*routing.Endpoint{endpoint}, nil) }
		cluster := &routing.Cluster{Name: "test", Mode: routing.ModeRock, Admin: role(), Proxy: role()}
		h.routes = routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "test", Registry: h.registry}}), routing.CacheOptions{})
		h.gateway = New(Options{
			Clusters: []*routing.Cluster{cluster}, Routes: h.routes, Upstream: h, LookBound: 250 * time.Millisecond, MaxHeldEnvelope: mostHeld,
		})
		defer func() {
			h.gateway.Close()
			cluster.Admin.Close()
			cluster.Proxy.Close()
			h.routes.Close()
		}()
		play(h)
	})
}

// RoundTrip implements [Upstream]: it is the sandbox.
func (h *theatre) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {h.now.contentType}}, Trailer: http.Header{},
	}
	pieces, sent := h.now.pieces, 0
	resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
		if len(pieces) > 0 {
			n := copy(p, pieces[0][sent:])
			if sent += n; sent == len(pieces[0]) {
				pieces, sent = pieces[1:], 0
			}
			return n, nil
		}
		switch h.now.ending {
		case endsEOF:
			return 0, io.EOF
		case endsTrailers:
			resp.Trailer["Grpc-Status"] = []string{"0"}
			return 0, io.EOF
		case endsReset:
			return 0, syscall.ECONNRESET
		case endsDying:
			h.registry.say(routing.StateRunning, routing.ErrGone)
			return 0, syscall.ECONNRESET
		}
		<-r.Context().Done()
		return 0, r.Context().Err()
	}))
	return resp, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// seat is where the client sits. Its connection breaks when it has taken what it takes.
type seat struct {
	header http.Header
	status int
	body   strings.Builder
	takes  int
}

var errBroken = errors.New("the client's connection is broken")

func (s *seat) Header() http.Header              { return s.header }
func (s *seat) WriteHeader(status int)           { s.status = status }
func (s *seat) SetReadDeadline(time.Time) error  { return nil }
func (s *seat) SetWriteDeadline(time.Time) error { return nil }
func (s *seat) EnableFullDuplex() error          { return nil }
func (s *seat) FlushError() error                { return nil }

func (s *seat) Write(p []byte) (int, error) {
	if s.takes >= 0 && s.body.Len()+len(p) > s.takes {
		n := s.takes - s.body.Len()
		s.body.Write(p[:n])
		return n, errBroken
	}
	return s.body.Write(p)
}

// perform plays a drama and returns what the client has got and what became of the call.
func (h *theatre) perform(d drama) (got *seat, out Outcome) {
	h.now = d
	h.registry.say(routing.StateRunning, nil)
	h.routes.Invalidate("a")
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+start, strings.NewReader(""))
	r.Header = http.Header{"Content-Type": {d.contentType}, "E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
	if d.ending == endsDeadline {
		r.Header.Set("Connect-Timeout-Ms", "1000")
	}
	got = &seat{header: http.Header{}, takes: d.takes}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.gateway.Serve(got, r, Both, Stranger, &out)
	}()
	synctest.Wait()
	switch d.ending {
	case endsKilled:
		h.gateway.streams.end("a", cause.SandboxGone)
	case endsDrain:
		for _, running := range h.gateway.streams.all() {
			running.cancel.cancel(ended{cause.Drain})
		}
	case endsLeaving:
		leave()
	}
	<-done
	return got, out
}

// protocol is what the drama is played in.
func (d drama) protocol() protocol.Protocol {
	p, _ := protocol.Framing(d.contentType)
	return p
}

// envelopes takes apart what is whole at the beginning of a text.
func envelopes(text string) (whole []string, rest string) {
	for len(text) >= 5 {
		n := 5 + (int(text[1])<<24 | int(text[2])<<16 | int(text[3])<<8 | int(text[4]))
		if len(text) < n {
			break
		}
		whole, text = append(whole, text[:n]), text[n:]
	}
	return whole, text
}

// decoded is a body of base64 in runs, as far as its quanta are whole.
func decoded(text string) string {
	var all strings.Builder
	for ; len(text) >= 4; text = text[4:] {
		b, err := base64.StdEncoding.DecodeString(text[:4])
		if err != nil {
			break
		}
		all.Write(b)
	}
	return all.String()
}
