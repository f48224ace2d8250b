package capability

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// mapped is the port that the record of every sandbox maps; the others of serverPorts are reached through the sandbox's rocklet.
const mapped = 8080

var serverPorts = []int{mapped, 8000, 50005, 49999}

const inside = "hello from inside"

// procedure is the gRPC method of the servers in the sandbox: it repeats what it is told.
const procedure = "/capability.Echo/Say"

// serveInside starts the same server at all ports in a sandbox. It speaks HTTP/1.1 and, as gRPC wants it, HTTP/2 without TLS.
func serveInside(t *testing.T, s *rock.Sandbox) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, inside) })
	seen := &gates{open: map[string]chan struct{}{}}
	mux.HandleFunc("/seen", func(w http.ResponseWriter, r *http.Request) { close(seen.gate(r.URL.Query().Get("key"))) })
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-seen.gate(r.URL.Query().Get("key")):
			_, _ = io.WriteString(w, "data: second\n\n")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/socket", echoOnSocket)
	mux.Handle(procedure, connect.NewUnaryHandler(procedure,
		func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			return connect.NewResponse(r.Msg), nil
		}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols}
	var serving sync.WaitGroup
	for _, port := range serverPorts {
		l, err := s.Listen(port)
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() { _ = server.Serve(l) })
	}
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
}

// gates are closed when their key was seen.
type gates struct {
	mu   sync.Mutex
	open map[string]chan struct{}
}

func (g *gates) gate(key string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[key] == nil {
		g.open[key] = make(chan struct{})
	}
	return g.open[key]
}

// The handshake of RFC 6455 section 1.2, so that the accepted key is known.
const (
	handshake = "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: https://elsewhere.test\r\n\r\n"
	accepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
	// said is a masked text frame with "ping", heard the answer to it: RFC 6455 section 5.2.
	said  = "\x81\x84\x00\x00\x00\x00ping"
	heard = "\x81\x04pong"
)

// echoOnSocket answers one frame.
func echoOnSocket(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, accepted)
	frame := make([]byte, len(said))
	if _, err := io.ReadFull(rw, frame); err != nil || string(frame) != said {
		return
	}
	_, _ = io.WriteString(conn, heard)
	_, _ = io.Copy(io.Discard, rw)
}

// patience bounds what the test itself asks of a host.
const patience = 20 * time.Second

// askSocket opens a WebSocket at a host, as a browser does: over HTTP/1.1.
func askSocket(e *harness.Endpoint, host string) error {
	base, err := url.Parse(e.URL)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout("tcp", base.Host, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if e.Transport != harness.Cleartext {
		name, _, _ := net.SplitHostPort(host)
		config := e.TLS()
		config.ServerName, config.NextProtos = name, []string{"http/1.1"}
		conn = tls.Client(conn, config)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(conn, handshake, host); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the handshake is answered with %s", resp.Status)
	}
	if _, err := io.WriteString(conn, said); err != nil {
		return err
	}
	frame := make([]byte, len(heard))
	if _, err := io.ReadFull(r, frame); err != nil || string(frame) != heard {
		return fmt.Errorf("the frame is answered with %q, %w", frame, err)
	}
	return nil
}

// askGRPC makes a gRPC call at a host.
func askGRPC(ctx context.Context, e *harness.Endpoint, host string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](e.Client(), "https://"+host+procedure, connect.WithGRPC())
	answer, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("say this")))
	if err != nil {
		return err
	}
	if got := answer.Msg.GetValue(); got != "say this" {
		return fmt.Errorf("the answer is %q", got)
	}
	return nil
}
