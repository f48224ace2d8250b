package module

import (
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// httpcore's synchronous HTTP/2 client (Python 2.34.0) answers no PING and takes
// nothing while the program works on an event.
func TestABusyClientIsNotTakenForADeadOne(t *testing.T) {
	for name, c := range map[string]struct {
		config      e2bcaddyfile.ListenerConfig
		ping, write time.Duration
	}{
		"by default": {e2bcaddyfile.ListenerConfig{}, 0, 5 * time.Minute},
		"off":        {e2bcaddyfile.ListenerConfig{PingInterval: -1}, 0, 5 * time.Minute},
		"asked for": {e2bcaddyfile.ListenerConfig{PingInterval: caddy.Duration(time.Second), WriteTimeout: caddy.Duration(time.Minute)},
			time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newConnections(new(front), &Listener{ListenerConfig: c.config, server: new(caddyhttp.Server)})
			defer pool.server.Close()
			defer all.Delete(pool)
			if h2 := pool.server.HTTP2; h2.SendPingTimeout != c.ping || h2.WriteByteTimeout != c.write {
				t.Errorf("a PING after %v, cut after %v, want %v and %v", h2.SendPingTimeout, h2.WriteByteTimeout, c.ping, c.write)
			}
		})
	}
}

func TestAPanicOverEitherProtocolIsAnError(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		said := make(lines, 16)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { faulty() }))
		s.EnableHTTP2 = h2
		s.Config.ErrorLog = log.New(said, "", 0)
		s.StartTLS()
		resp, err := s.Client().Get(s.URL)
		if err == nil {
			t.Errorf("HTTP/2 %t: %s", h2, resp.Status)
			resp.Body.Close()
		}
		// Over HTTP/2 it is said after the client was told.
		if text := <-said; !isPanic(text) || !strings.Contains(text, "a fault") {
			t.Errorf("HTTP/2 %t: %q is taken for small talk", h2, text)
		}
		s.Close()
	}
}

// lines are what a log says.
type lines chan string

// Write implements [io.Writer].
func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// The front has no config, so what is served is 421.
func TestARequestOfHTTP2IsServedByAWorker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pool := newConnections(new(front), &Listener{server: &caddyhttp.Server{Protocols: []string{"h1", "h2c"}}})
	defer pool.server.Close()
	defer all.Delete(pool)
	pool.holders++ // keeps it
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			pool.serve(c)
		}
	}()
	client := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
	client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	defer client.CloseIdleConnections()
	for onHTTP2.waiting() > 0 {
		close(onHTTP2.take().requests)
	}
	resp, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if n := onHTTP2.waiting(); resp.ProtoMajor != 2 || resp.StatusCode != http.StatusMisdirectedRequest || n == 0 {
		t.Errorf("%s %s, and %d workers wait", resp.Proto, resp.Status, n)
	}
}
