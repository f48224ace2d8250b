package module

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// clientTLS reads the files of a TLS config. A nil config is the system's
// authorities.
func clientTLS(c *e2bcaddyfile.TLSConfig) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c == nil {
		return out, nil
	}
	out.ServerName = c.ServerName
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("tls: ca: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: ca: %s holds no PEM certificate", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("tls: cert: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// tlsFiles names the content of a TLS config's files, so that a rotated
// certificate makes a new part at the next reload although its path is the
// same.
func tlsFiles(c *e2bcaddyfile.TLSConfig) ([]string, error) {
	if c == nil {
		return nil, nil
	}
	var contents []string
	for _, file := range []string{c.CA, c.Cert, c.Key} {
		if file == "" {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		contents = append(contents, string(b))
	}
	return contents, nil
}
