package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// quiet is for servers whose handshakes are meant to fail.
var quiet = log.New(io.Discard, "", 0)

// certificate makes files of a certificate, valid from and to a time from now.
func (s *scene) certificate(name string, from, to time.Duration) (cert, key string) {
	s.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		s.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		s.t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return s.file("cert.pem", encode("CERTIFICATE", der), 0o600), s.file("key.pem", encode("PRIVATE KEY", pkcs8), 0o600)
}

func TestTheReportForAPersonSaysWhatToDo(t *testing.T) {
	s := newScene(t)
	s.option("idle_timeout 2m")
	r := s.run("--timeout", "20s")
	for _, want := range []string{"warning  idle-too-long\n", "idle_timeout is 2m0s.", "Why: ROCK closes after 30s", "Do:  Leave `idle_timeout` out",
		"0 errors, 1 warning, 0 notes; 1 not checked\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in:\n%s", want, r.out)
		}
	}
	if r.code != 1 {
		t.Errorf("exit code %d", r.code)
	}
}

// The example's user may not ask Redis for its clock and its memory limit.
func TestWhatCouldNotBeCheckedIsSaid(t *testing.T) {
	r := newScene(t).run()
	if len(r.report.Unchecked) != 1 || !strings.Contains(r.report.Unchecked[0].What, "memory limit") {
		t.Errorf("%+v", r.report.Unchecked)
	}
}

func TestAConfigThatCannotBeReadExitsWithTwo(t *testing.T) {
	s := newScene(t)
	s.caddyfile = "{"
	if r := s.run(); r.code != 2 || r.out != "" || !strings.Contains(r.err, "Caddyfile") {
		t.Errorf("%+v", r)
	}
	if r := newScene(t).run("--resolver", "somewhere", "--json"); r.code != 2 || !strings.Contains(r.err, "host:port") {
		t.Errorf("%+v", r)
	}
}

// An image from nothing has no /tmp. That is no fault of the config.
func TestWithoutADirectoryOfItsOwnItBlamesNoConfig(t *testing.T) {
	s := newScene(t)
	harness.Build(t) // which needs one
	t.Setenv("TMPDIR", "/there/is/none")
	if r := s.run(); r.code != 2 || r.out != "" || !strings.Contains(r.err, "TMPDIR may name one") {
		t.Errorf("%+v", r)
	}
}

// A Redis and a ROCK that accept and say nothing do not hold the doctor up.
func TestTheExaminationEnds(t *testing.T) {
	s := newScene(t)
	s.redis.Pause()
	defer s.redis.Resume()
	r := s.run("--timeout", "2s", "--json")
	if got := strings.Join(ids(r), " "); got != "redis-unreachable" {
		t.Errorf("found %s", got)
	}
}
