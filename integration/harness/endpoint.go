package harness

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// Endpoint is where clients find a gateway.
type Endpoint struct {
	// URL is the base URL of the gateway's first listener, without a slash at
	// the end.
	URL string
	// CAFile is the PEM file of the authority to trust, "" for [Cleartext].
	CAFile string
	// Transport is how clients connect.
	Transport Transport

	urls map[string]string // the listener of the Caddyfile -> base URL
	t    testing.TB
}

// URLOf is the base URL of the sites that the Caddyfile has at a listener, as
// Caddy writes it: ":8080", ":443". Sites that share a listener are told apart
// by the Host of a request, as ever.
func (e *Endpoint) URLOf(listener string) string {
	e.t.Helper()
	url, ok := e.urls[listener]
	if !ok {
		e.t.Fatalf("the Caddyfile has no listener %q but %v", listener, e.urls)
	}
	return url
}

// addresses are those of all listeners, by listener.
func (e *Endpoint) addresses() map[string]string {
	all := map[string]string{}
	for listener, url := range e.urls {
		_, all[listener], _ = strings.Cut(url, "://")
	}
	return all
}

// Client is an HTTP client that trusts the gateway and speaks HTTP/2 when the
// transport does. It has no timeout and never asks for compression. Its
// connections are its own; they close with the test.
func (e *Endpoint) Client() *http.Client {
	e.t.Helper()
	tr := &http.Transport{DisableCompression: true, ForceAttemptHTTP2: e.Transport == TLS2, MaxIdleConnsPerHost: 1000}
	if e.Transport.secure() {
		tr.TLSClientConfig = e.TLS()
	}
	if e.Transport != TLS2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	e.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// TLS is a client's TLS config that trusts the gateway.
func (e *Endpoint) TLS() *tls.Config {
	e.t.Helper()
	pem, err := os.ReadFile(e.CAFile)
	if err != nil {
		e.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// DialTLS opens a connection to the gateway that offers no HTTP/2. It closes
// with the test.
func (e *Endpoint) DialTLS() net.Conn {
	e.t.Helper()
	_, address, _ := strings.Cut(e.URL, "://")
	c, err := tls.Dial("tcp", address, e.TLS())
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	return c
}
