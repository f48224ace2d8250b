package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Domain is a name whose hosts, and the hosts one label below it, lead to
// loopback on every machine that has libnss-myhostname (RFC 6761 section 6.3).
// The certificate of a gateway is for all of them.
const Domain = "sandbox.localhost"

// authority is a certificate authority of one test with one server
// certificate: for 127.0.0.1, ::1, localhost, [Domain] and sandbox.test, and for
// names below these two.
type authority struct {
	file      string // the authority's certificate, PEM
	cert, key string // the server's, PEM
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	caKey, caTemplate := newKey(t), certificate("Test authority")
	caTemplate.IsCA = true
	caTemplate.BasicConstraintsValid = true
	caTemplate.KeyUsage = x509.KeyUsageCertSign
	caDER := sign(t, caTemplate, caTemplate, caKey, caKey)

	leafKey, leaf := newKey(t), certificate("gateway")
	leaf.DNSNames = []string{"localhost", "sandbox.test", "*.sandbox.test", Domain, "*." + Domain}
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER := sign(t, leaf, caTemplate, leafKey, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}

	a := &authority{
		file: filepath.Join(t.TempDir(), "ca.pem"),
		cert: block("CERTIFICATE", leafDER),
		key:  block("PRIVATE KEY", keyDER),
	}
	if err := os.WriteFile(a.file, []byte(block("CERTIFICATE", caDER)), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func certificate(commonName string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func sign(t testing.TB, cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Certificate makes an authority for a test and returns a server's certificate
// by it, for loopback, and the key to that: two PEM files.
func Certificate(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	_, certFile, keyFile = CertificateByAuthority(t)
	return certFile, keyFile
}

// CertificateByAuthority is [Certificate] with the PEM file of the authority,
// for clients that check whom they talk to.
func CertificateByAuthority(t testing.TB) (caFile, certFile, keyFile string) {
	t.Helper()
	a, dir := newAuthority(t), t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, text := range map[string]string{certFile: a.cert, keyFile: a.key} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a.file, certFile, keyFile
}
