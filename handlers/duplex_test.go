package handlers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/caddy-e2b/gateway/routing"
)

// Full duplex: a client of HTTP/2 waits for an answer before it sends on, and behind the gateway is HTTP/1.1. What a
// server can do there, the gateway must not take away.

// talk is a method that says again what it is told, one message at a time.
const talk = "/duplex.Echo/Talk"

type words = wrapperspb.StringValue

// echo answers each message while the request goes on.
func echo(_ context.Context, s *connect.BidiStream[words, words]) error {
	for {
		message, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(message); err != nil {
			return err
		}
	}
}

// asHTTP2 lets connect-go serve a bidi stream over HTTP/1.1, which it refuses else. The Connect project's conformance
// suite does the same.
func asHTTP2(rpc http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.ProtoMajor, r.ProtoMinor = 2, 0
		rpc.ServeHTTP(w, r)
	}
}

// fullDuplex is a server that can do it on any connection, as node's is.
func fullDuplex(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		next.ServeHTTP(w, r)
	}
}

// newDuplexRig is a rig whose sandboxes are dialled, at envd's port and at an app's.
func newDuplexRig(t *testing.T, server http.HandlerFunc) *rig {
	t.Helper()
	g := newRig(t)
	g.proxy = server
	at, err := netip.ParseAddrPort(g.cluster.Proxy.Candidates("")[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	g.cluster.Mode, g.cluster.AllowedHosts = routing.ModeDirect, []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}
	g.registry.route.Host = at.Addr()
	g.registry.route.Ports = routing.PortsOf(map[uint16]uint16{routing.EnvdPort: at.Port(), 3000: at.Port()})
	return g
}

// overHTTP2 is the gateway once more, for clients of HTTP/2, with TLS and without.
func (g *rig) overHTTP2(t *testing.T) map[string]*httptest.Server {
	t.Helper()
	secure := httptest.NewUnstartedServer(g.Config.Handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	clear := httptest.NewUnstartedServer(g.Config.Handler)
	clear.Config.Protocols = new(http.Protocols)
	clear.Config.Protocols.SetUnencryptedHTTP2(true)
	clear.Start()
	clear.Client().Transport = &http.Transport{Protocols: clear.Config.Protocols}
	t.Cleanup(func() {
		secure.Close()
		clear.Client().CloseIdleConnections()
		clear.Close()
	})
	return map[string]*httptest.Server{"TLS": secure, "h2c": clear}
}

type duplexCall struct {
	*connect.BidiStreamForClient[words, words]
	port  int
	leave func()
}

// eachDuplex calls the method in every protocol whose hop to the sandbox is HTTP/1.1.
func (g *rig) eachDuplex(t *testing.T, do func(t *testing.T, c duplexCall)) {
	t.Helper()
	protocols := map[string][]connect.ClientOption{"Connect": nil, "gRPC-Web": {connect.WithGRPCWeb()}, "gRPC": {connect.WithGRPC()}}
	for front, server := range g.overHTTP2(t) {
		for _, port := range []int{routing.EnvdPort, 3000} {
			for name, options := range protocols {
				if name == "gRPC" && port == 3000 {
					continue // over HTTP/2
				}
				t.Run(strings.Join([]string{front, strconv.Itoa(port), name}, "/"), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					s := connect.NewClient[words, words](server.Client(), server.URL+talk, options...).CallBidiStream(ctx)
					s.RequestHeader().Set("E2b-Sandbox-Id", "sbx-1")
					s.RequestHeader().Set("E2b-Sandbox-Port", strconv.Itoa(port))
					do(t, duplexCall{s, port, cancel})
					_ = s.CloseResponse()
				})
			}
		}
	}
}

// ask says something and waits for the answer.
func (c duplexCall) ask(said string) (string, error) {
	if err := c.Send(wrapperspb.String(said)); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	answer, err := c.Receive()
	return answer.GetValue(), err
}

func TestMessagesGoBothWaysWhileTheRequestIsOpen(t *testing.T) {
	rpc := asHTTP2(connect.NewBidiStreamHandler(talk, echo))
	for name, server := range map[string]http.HandlerFunc{"Go's server as it is": rpc, "full duplex": fullDuplex(rpc)} {
		t.Run(name, func(t *testing.T) {
			newDuplexRig(t, server).eachDuplex(t, func(t *testing.T, c duplexCall) {
				for _, said := range []string{"one", "two", "three"} {
					if answer, err := c.ask(said); answer != said || err != nil {
						t.Fatalf("%s was answered with %q, %v", said, answer, err)
					}
				}
				_ = c.CloseRequest()
				if _, err := c.Receive(); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			})
		})
	}
}

// connect-go refuses at once, on a connection that it closes.
func TestARefusalReachesAClientWhoseRequestIsOpen(t *testing.T) {
	g := newDuplexRig(t, connect.NewBidiStreamHandler(talk, echo).ServeHTTP)
	g.eachDuplex(t, func(t *testing.T, c duplexCall) {
		want := "internal"
		if c.port != routing.EnvdPort {
			want = "HTTP status 505"
		}
		if _, err := c.ask("one"); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	})
}

// What reads a request to its end before it answers never answers such a call, with or without the gateway. The call
// ends with its client.
func TestACallThatNobodyAnswersEndsWithItsClient(t *testing.T) {
	begun, read := make(chan struct{}, 1), make(chan error, 1)
	g := newDuplexRig(t, func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
	})
	g.eachDuplex(t, func(t *testing.T, c duplexCall) {
		if err := c.Send(wrapperspb.String("one")); err != nil {
			t.Fatal(err)
		}
		<-begun
		c.leave()
		select {
		case err := <-read:
			if err == nil {
				t.Error("the sandbox takes the request for whole")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the sandbox waits still")
		}
	})
}

// What is closed behind its answer costs a connection: nobody else pays it.
func TestOnlyWhatMayConverseIsAskedToClose(t *testing.T) {
	closes := make(chan bool, 1)
	g := newDuplexRig(t, func(w http.ResponseWriter, r *http.Request) { closes <- r.Close })
	for _, tc := range []struct {
		contentType string
		body        io.Reader
		want        bool
	}{
		{stream, io.MultiReader(strings.NewReader("x")), true},
		{"application/grpc-web+proto", io.MultiReader(strings.NewReader("x")), true},
		{stream, strings.NewReader("x"), false},
		{"application/octet-stream", io.MultiReader(strings.NewReader("x")), false},
	} {
		r, _ := http.NewRequest(http.MethodPost, g.URL+talk, tc.body)
		r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"3000"}, "Content-Type": {tc.contentType}}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := <-closes; got != tc.want {
			t.Errorf("%s, %d bytes: closed %v", tc.contentType, r.ContentLength, got)
		}
	}
}

// What the gateway cannot mend: connect-go closes the request's body before it flushes the end of its answer, and for that Go's
// server over HTTP/1.1 reads what is left of it (net/http, body.Close). A call that such a server ends goes on until its
// client ends the request, with the gateway and without it.
func TestAnEndThatWaitsForTheRequestWaitsWithoutTheGatewayToo(t *testing.T) {
	refuse := func(_ context.Context, s *connect.BidiStream[words, words]) error {
		_, _ = s.Receive()
		return connect.NewError(connect.CodeAborted, errors.New("no"))
	}
	g := newDuplexRig(t, asHTTP2(connect.NewBidiStreamHandler(talk, refuse)))
	for name, address := range map[string]string{"directly": "http://" + g.cluster.Proxy.Candidates("")[0].Address, "through the gateway": g.URL} {
		t.Run(name, func(t *testing.T) {
			body, request := io.Pipe()
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, address+talk, body)
			r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"3000"}, "Content-Type": {stream}, "Connect-Protocol-Version": {"1"}}
			r.Close = true
			answered := make(chan string, 1)
			go func() {
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					answered <- err.Error()
					return
				}
				defer resp.Body.Close()
				b, _ := io.ReadAll(resp.Body)
				answered <- string(b)
			}()
			if _, err := io.WriteString(request, frame(0, `"one"`)); err != nil {
				t.Fatal(err)
			}
			select {
			case answer := <-answered:
				t.Errorf("%q, before the request was over: it can be promised now", answer)
			case <-time.After(200 * time.Millisecond):
			}
			request.Close()
			if answer := <-answered; !strings.Contains(answer, `"aborted"`) {
				t.Errorf("%q", answer)
			}
		})
	}
}
