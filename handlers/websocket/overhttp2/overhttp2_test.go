package overhttp2_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"

	_ "github.com/caddy-e2b/gateway/handlers/websocket/overhttp2"
)

// RFC 8441 section 3.
func TestAServerOffersExtendedConnect(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{
		RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com", NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(c, c)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	f, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	if offered, _ := f.(*http2.SettingsFrame).Value(http2.SettingEnableConnectProtocol); offered != 1 {
		t.Errorf("ENABLE_CONNECT_PROTOCOL is %d", offered)
	}
}
