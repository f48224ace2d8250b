package rolling

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/loopback"
)

// haproxy is a running HAProxy in front of the gateways.
type haproxy struct {
	URL, CAFile string

	socket string
	ended  chan struct{} // closed when the process has
}

// startHAProxy runs HAProxy with the config of deploy/haproxy until the test ends, and returns when it knows all gateways to be up.
func startHAProxy(t testing.TB, gateways []*harness.Process) *haproxy {
	t.Helper()
	dir := t.TempDir()
	ca, cert, key := harness.CertificateByAuthority(t)
	var pem []byte
	for _, file := range []string{cert, key} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pem = append(pem, b...)
	}
	if err := os.WriteFile(filepath.Join(dir, "both.pem"), pem, 0o600); err != nil {
		t.Fatal(err)
	}
	listen := loopback.FreeAddress(t)
	h := &haproxy{URL: "https://" + listen, CAFile: ca, socket: filepath.Join(dir, "sock"), ended: make(chan struct{})}
	words := map[string]string{
		"/run/haproxy/e2b.sock": h.socket,
		"bind :443":             "bind " + listen,
		"/etc/haproxy/certs/":   filepath.Join(dir, "both.pem"),
	}
	for i, g := range gateways {
		server := fmt.Sprintf("server gateway-%d gateway-%d:8080", i+1, i+1)
		words[server] = fmt.Sprintf("server gateway-%d %s port %s", i+1, hostOf(t, g.URLOf(":8080")), portOf(t, g.URLOf(":9180")))
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(replaced(t, "haproxy.cfg", words)), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatalf("haproxy is not installed; run make deps: %v", err)
	}
	cmd := exec.Command(path, "-db", "-f", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(h.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-h.ended
		if t.Failed() {
			t.Logf("HAProxy: %s", stderr.String())
		}
	})
	for i := range gateways {
		h.await(t, i, "UP")
	}
	return h
}

// await waits until HAProxy holds a gateway to be in a state.
func (h *haproxy) await(t testing.TB, gateway int, state string) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	var got string
	var err error
	for {
		if got, err = h.state(gateway); err == nil && got == state {
			return
		}
		select {
		case <-poll.C:
		case <-h.ended:
			t.Fatal("HAProxy has ended")
		case <-limit.C:
			t.Fatalf("to HAProxy gateway %d is %q and not %s: %v", gateway+1, got, state, err)
		}
	}
}

// state is a gateway's, as the checks found it: "UP", "DOWN", or on the way from one to the other.
func (h *haproxy) state(gateway int) (string, error) {
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "show stat\n"); err != nil {
		return "", err
	}
	const status = 17 // the column
	for lines := bufio.NewScanner(c); lines.Scan(); {
		fields := strings.Split(lines.Text(), ",")
		if len(fields) > status && fields[0] == "gateways" && fields[1] == "gateway-"+strconv.Itoa(gateway+1) {
			// Before its first check a server is up on trust: what is in the column of the last check tells.
			if fields[36] == "" || strings.HasPrefix(fields[36], "*") {
				return "unchecked", nil
			}
			return fields[status], nil
		}
	}
	return "", fmt.Errorf("HAProxy knows no gateway %d", gateway+1)
}

// client trusts HAProxy and speaks HTTP/1.1 or HTTP/2 with it. Its connections are its own and close with the test.
func (h *haproxy) client(t testing.TB, version int) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(h.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	tr := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 1000, Protocols: new(http.Protocols),
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	tr.Protocols.SetHTTP1(version == 1)
	tr.Protocols.SetHTTP2(version == 2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func hostOf(t testing.TB, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func portOf(t testing.TB, base string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(hostOf(t, base))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
