package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/rock"
)

type message = wrapperspb.StringValue

// serveGRPC serves a gRPC service on a port in a sandbox. It speaks HTTP/2 and
// nothing else, as grpc-go and grpc-python do.
func serveGRPC(t testing.TB, box *rock.Sandbox, port int) (arrived <-chan struct{}) {
	t.Helper()
	calls := make(chan struct{}, 1000)
	mux := http.NewServeMux()
	mux.Handle("/test.Echo/Unary", connect.NewUnaryHandler("/test.Echo/Unary", func(_ context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
		switch said := r.Msg.Value; said {
		case "fail":
			err := connect.NewError(connect.CodeResourceExhausted, errors.New("as asked"))
			err.Meta().Set("Why", "asked")
			return nil, err
		default:
			resp := connect.NewResponse(wrapperspb.String(said + " over " + r.Peer().Protocol))
			resp.Trailer().Set("Last", "word")
			return resp, nil
		}
	}))
	mux.Handle("/test.Echo/Count", connect.NewServerStreamHandler("/test.Echo/Count", func(ctx context.Context, r *connect.Request[message], s *connect.ServerStream[message]) error {
		n, err := strconv.Atoi(r.Msg.Value)
		for i := 0; i < n && err == nil; i++ {
			err = s.Send(wrapperspb.String(strconv.Itoa(i)))
		}
		if n == 0 {
			<-ctx.Done()
		}
		return err
	}))
	mux.Handle("/test.Echo/First", connect.NewBidiStreamHandler("/test.Echo/First", func(_ context.Context, s *connect.BidiStream[message, message]) error {
		m, err := s.Receive()
		if err == nil {
			err = s.Send(m)
		}
		return err // whether or not more is to come
	}))
	mux.Handle("/test.Echo/Silent", connect.NewBidiStreamHandler("/test.Echo/Silent", func(ctx context.Context, _ *connect.BidiStream[message, message]) error {
		<-ctx.Done()
		return nil
	}))
	mux.Handle("/test.Echo/Chat", connect.NewBidiStreamHandler("/test.Echo/Chat", func(_ context.Context, s *connect.BidiStream[message, message]) error {
		for {
			m, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = s.Send(m)
			}
			if err != nil {
				return err
			}
		}
	}))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" {
			t.Errorf("TE is %q", r.Header.Get("Te"))
		}
		calls <- struct{}{}
		mux.ServeHTTP(w, r)
	}), Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	l := listen(t, box, port)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return calls
}

// routed puts the routing headers into every call of a client.
type routed struct {
	id   string
	port int
}

func (h routed) set(header http.Header) {
	header.Set("E2b-Sandbox-Id", h.id)
	header.Set("E2b-Sandbox-Port", strconv.Itoa(h.port))
}

func (h routed) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		h.set(r.Header())
		return next(ctx, r)
	}
}

func (h routed) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		h.set(conn.RequestHeader())
		return conn
	}
}

func (h routed) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// client is a client of gRPC for one call of a service at a port.
func client(g *harness.Gateway, call string, port int) *connect.Client[message, message] {
	return connect.NewClient[message, message](g.Client(), g.URL+"/test.Echo/"+call, connect.WithGRPC(), connect.WithInterceptors(routed{"a", port}))
}

// Field report H11.
func TestGRPCServicesAreReachedByHTTP2(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config, harness.TLS2)
	box := s.create(t, "a")
	for _, port := range []int{hidden, published} {
		serveGRPC(t, box, port)
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			t.Run("unary, with trailers", func(t *testing.T) {
				resp, err := client(g, "Unary", port).CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("hello")))
				if err != nil || resp.Msg.Value != "hello over grpc" || resp.Trailer().Get("Last") != "word" {
					t.Errorf("%v, %v", resp, err)
				}
			})
			t.Run("an error with its metadata", func(t *testing.T) {
				_, err := client(g, "Unary", port).CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("fail")))
				var e *connect.Error
				if !errors.As(err, &e) || e.Code() != connect.CodeResourceExhausted || e.Message() != "as asked" || e.Meta().Get("Why") != "asked" {
					t.Errorf("%v", err)
				}
			})
			t.Run("a large message", func(t *testing.T) {
				said := strings.Repeat("x", 3<<20)
				resp, err := client(g, "Unary", port).CallUnary(t.Context(), connect.NewRequest(wrapperspb.String(said)))
				if err != nil || resp.Msg.Value != said+" over grpc" {
					t.Errorf("%v", err)
				}
			})
			t.Run("a stream of the server's", func(t *testing.T) {
				stream, err := client(g, "Count", port).CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("1000")))
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for ; stream.Receive(); n++ {
					if stream.Msg().Value != strconv.Itoa(n) {
						t.Fatalf("message %d is %s", n, stream.Msg().Value)
					}
				}
				if stream.Err() != nil || n != 1000 {
					t.Errorf("%d messages, %v", n, stream.Err())
				}
				stream.Close()
			})
			t.Run("an end before that of the client's stream", func(t *testing.T) {
				stream := client(g, "First", port).CallBidiStream(t.Context())
				if err := stream.Send(wrapperspb.String("first")); err != nil {
					t.Fatal(err)
				}
				if m, err := stream.Receive(); err != nil || m.Value != "first" {
					t.Errorf("%v, %v", m, err)
				}
				if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
					t.Errorf("ended with %v", err)
				}
				stream.CloseRequest()
				stream.CloseResponse()
			})
			t.Run("both ways at once", func(t *testing.T) {
				stream := client(g, "Chat", port).CallBidiStream(t.Context())
				for i := range 100 {
					if err := stream.Send(wrapperspb.String(strconv.Itoa(i))); err != nil {
						t.Fatal(err)
					}
					if m, err := stream.Receive(); err != nil || m.Value != strconv.Itoa(i) {
						t.Fatalf("%v, %v", m, err)
					}
				}
				stream.CloseRequest()
				if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
					t.Errorf("ended with %v", err)
				}
				stream.CloseResponse()
			})
		})
	}
	if n := box.Forwards(); n != 1 {
		t.Errorf("%d port-forwards, one would do for all streams", n)
	}
}

func TestAGRPCCallToAClosedPortIsToldInGRPC(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config, harness.TLS2)
	s.create(t, "a")
	for _, port := range []int{hidden, published} {
		_, err := client(g, "Unary", port).CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("hello")))
		if connect.CodeOf(err) != connect.CodeAborted || !strings.Contains(err.Error(), "port is not open") {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// gRPC has room for the truth in its trailers, whether or not the app has begun to answer.
func TestAGRPCStreamThatLosesItsSandboxIsToldSo(t *testing.T) {
	for call, begun := range map[string]bool{"Chat": true, "Silent": false} {
		for _, port := range []int{hidden, published} {
			if port == published && !begun {
				continue // the connection stays open, and until there is an answer it is no stream
			}
			t.Run(fmt.Sprintf("%s, %d", call, port), func(t *testing.T) {
				s := build(t, "")
				g := inprocess.Start(t, s.config, harness.TLS2)
				arrived := serveGRPC(t, s.create(t, "a"), port)
				stream := client(g, call, port).CallBidiStream(t.Context())
				if err := stream.Send(wrapperspb.String("x")); err != nil {
					t.Fatal(err)
				}
				<-arrived
				if begun {
					if _, err := stream.Receive(); err != nil {
						t.Fatal(err)
					}
				}
				s.kill(t, "a")
				_, err := stream.Receive()
				if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "was not found") {
					t.Errorf("%v", err)
				}
				stream.CloseRequest()
				stream.CloseResponse()
			})
		}
	}
}
