package rock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// rocklet is ROCK's agent in a sandbox, as far as a gateway meets it: the door to the ports inside.
func (s *Sandbox) rocklet() http.Handler {
	return router{{"GET", "/portforward", s.portforward}}
}

const (
	// forwardChunk is how much the rocklet reads of a port at once, which becomes one message.
	forwardChunk = 4096
	// forwardDial bounds the rocklet's connect to a port.
	forwardDial = 10 * time.Second
	// goodbyeWait is how long the rocklet waits for the answer to its close frame.
	goodbyeWait = 10 * time.Second
)

// portforward joins a WebSocket with 127.0.0.1:port in the sandbox. It switches protocols first and looks at the port afterwards. Neither
// side can end its direction alone: the end of one ends both.
func (s *Sandbox) portforward(w http.ResponseWriter, r *http.Request, _ string) {
	port, err := strconv.Atoi(r.URL.Query().Get("port"))
	if err != nil {
		writeJSON(w, http.StatusForbidden, map[string]string{"detail": "port must be an integer"})
		return
	}
	ws, err := switchToWebSocket(w, r)
	if err != nil {
		return
	}
	s.forwards.Add(1)
	defer s.forwards.Add(-1)
	// The end of the container resets what is open.
	defer context.AfterFunc(r.Context(), ws.reset)()
	defer ws.conn.Close()
	if port < 1024 || port > 65535 || port == 22555 {
		ws.goodbye(closePolicy, fmt.Sprintf("Port %d is not allowed", port), false)
		return
	}
	app, err := s.dialInside(r.Context(), port)
	if err != nil {
		reason := fmt.Sprintf("Failed to connect to port %d", port)
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			reason = fmt.Sprintf("Connection to port %d timed out", port)
		}
		ws.goodbye(closeInternal, reason, false)
		return
	}
	defer context.AfterFunc(r.Context(), func() { _ = app.Close() })()
	ws.join(app, s.cluster.opt.RockletPing)
}

// dialInside connects to a port as a program in the sandbox would.
func (s *Sandbox) dialInside(ctx context.Context, port int) (net.Conn, error) {
	address, ok := s.inside(port)
	if !ok {
		if !s.cluster.opt.HostNetwork {
			return nil, fmt.Errorf("rock: port %d: connection refused", port)
		}
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	ctx, cancel := context.WithTimeout(ctx, forwardDial)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// join copies in both directions until one has ended, and ends both.
func (ws *webSocket) join(app net.Conn, ping time.Duration) {
	over := make(chan struct{})
	var pings sync.WaitGroup
	pings.Go(func() { ws.keepAlive(over, ping) })
	defer pings.Wait()
	defer close(over)
	up := make(chan struct{})
	go func() {
		defer close(up)
		defer app.Close()
		for {
			message, err := ws.read()
			if err == nil {
				_, err = app.Write(message)
			}
			if err != nil {
				return
			}
		}
	}()
	b := make([]byte, forwardChunk)
	for {
		n, err := app.Read(b)
		if n > 0 && ws.write(opBinary, b[:n]) != nil {
			break
		}
		if err != nil {
			ws.goodbye(closeNormal, "", true)
			break
		}
	}
	_ = app.Close()
	_ = ws.conn.SetReadDeadline(time.Now().Add(goodbyeWait))
	<-up
}

// Listen opens a TCP port inside the sandbox, as a server on 127.0.0.1:port in it would. It is reached through the rocklet
// (Options.Rocklet) and, when Options.Published has the port, at the port of the host that the record maps it to. The listener ends with the
// container; Addr is the double's own. The error is that of a container that has ended, or of a port that is taken.
func (s *Sandbox) Listen(port int) (net.Listener, error) {
	inner, life, err := s.listenInside(port)
	if err != nil {
		return nil, err
	}
	life.onStop(func() { _ = inner.Close() })
	return inner, nil
}

func (s *Sandbox) listenInside(port int) (*insideListener, *container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present.over() {
		return nil, nil, errDead
	}
	if _, taken := s.servers[port]; taken {
		return nil, nil, fmt.Errorf("rock: port %d of sandbox %s is in use", port, s.ID)
	}
	address := "127.0.0.1:0"
	if published, ok := s.published[port]; ok {
		address = published
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("rock: port %d of sandbox %s: %w", port, s.ID, err)
	}
	s.servers[port] = l.Addr().String()
	return &insideListener{Listener: l, leave: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.servers, port)
	}}, s.present, nil
}

// Forwards counts the port-forwards that are open in the sandbox's rocklet.
func (s *Sandbox) Forwards() int { return int(s.forwards.Load()) }

func (s *Sandbox) inside(port int) (address string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	address, ok = s.servers[port]
	return address, ok
}

// insideListener is a port inside a sandbox.
type insideListener struct {
	net.Listener
	leave func()
}

// Close implements net.Listener.
func (l *insideListener) Close() error {
	l.leave()
	return l.Listener.Close()
}

// reset ends the connection as a killed process leaves it.
func (ws *webSocket) reset() {
	_ = ws.conn.SetLinger(0)
	_ = ws.conn.Close()
}

// switchToWebSocket answers the handshake of RFC 6455 section 4.2.2.
func switchToWebSocket(w http.ResponseWriter, r *http.Request) (*webSocket, error) {
	key := r.Header.Get("Sec-WebSocket-Key")
	if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-WebSocket-Version") != "13" || key == "" {
		writeJSON(w, http.StatusUpgradeRequired, map[string]string{"detail": "a WebSocket is needed"})
		return nil, errors.New("rock: no WebSocket handshake")
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("rock: not a TCP connection")
	}
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
		acceptOf(key)+"\r\n\r\n")
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &webSocket{conn: tcp, r: bufio.NewReader(rw.Reader), pongs: make(chan string, 1)}, nil
}
