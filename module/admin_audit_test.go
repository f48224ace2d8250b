package module

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"strings"
	"testing"
)

// At the remote admin endpoint Caddy has asked for a certificate.
func TestWhoChangesSomethingIsNamedByTheCertificate(t *testing.T) {
	r := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{
		Subject: pkix.Name{CommonName: "alice"}, RawSubjectPublicKeyInfo: []byte("key"),
	}}}}
	if who := identity(r); !strings.HasPrefix(who, "CN=alice (public key SHA-256 2c70e12b") {
		t.Error(who)
	}
	for _, nobody := range []*http.Request{{}, {TLS: &tls.ConnectionState{}}} {
		if who := identity(nobody); who != "" {
			t.Error(who)
		}
	}
}
