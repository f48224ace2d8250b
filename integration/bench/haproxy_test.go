package bench

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/loopback"
)

// haproxyConfig: one thread, connections to the upstream kept and shared, messages
// of streams sent on as they come.
const haproxyConfig = `
global
	nbthread 1
	maxconn 2000
defaults
	mode http
	timeout connect 3s
	timeout client 1h
	timeout server 1h
	http-reuse always
	option http-no-delay
frontend clients
	bind %s
	default_backend sandboxes
backend sandboxes
	server upstream %s
`

func (s *scene) startHAProxy(transport harness.Transport) *contestant {
	s.Helper()
	dir, address := s.TempDir(), loopback.FreeAddress(s)
	bind := address
	if transport != harness.Cleartext {
		cert, key := harness.Certificate(s)
		bind += fmt.Sprintf(" ssl alpn h2 crt %s", joined(s, dir, cert, key))
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, bind, s.upstream.Addr()), 0o600); err != nil {
		s.Fatal(err)
	}
	return s.run(haproxy, address, "haproxy", "-f", file)
}

// joined is a file with a certificate and its key, which HAProxy wants in one.
func joined(s *scene, dir, cert, key string) string {
	var pem []byte
	for _, file := range []string{cert, key} {
		b, err := os.ReadFile(file)
		if err != nil {
			s.Fatal(err)
		}
		pem = append(pem, b...)
	}
	file := filepath.Join(dir, "both.pem")
	if err := os.WriteFile(file, pem, 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

func host(address string) string { h, _, _ := net.SplitHostPort(address); return h }
func port(address string) string { _, p, _ := net.SplitHostPort(address); return p }
