package browser

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// patience bounds one run of the browser.
const patience = 90 * time.Second

// chromium prepares the browser for one page. It trusts the gateway's certificate and takes names below localhost to loopback by itself.
// The browser dies with ctx, and with the thread that starts it: see run.
func chromium(ctx context.Context, t *testing.T, e *harness.Endpoint, args ...string) *exec.Cmd {
	t.Helper()
	return plainChromium(ctx, t, append([]string{"--ignore-certificate-errors-spki-list=" + publicKey(t, e)}, args...)...)
}

// plainChromium is chromium that trusts nobody.
func plainChromium(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Fatal("Chromium is not installed; run make deps")
	}
	home, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir, which fails a test when a process of the browser's that is just ending leaves one more file.
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	cmd := exec.CommandContext(ctx, program, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-extensions", "--user-data-dir=" + home,
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs the browser to its end from a thread that lasts as long, because Pdeathsig fires at the end of the thread.
func run(cmd *exec.Cmd) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ended <- cmd.Run()
	}()
	return <-ended
}

// publicKey is the SHA-256 of the gateway's public key, in base64.
func publicKey(t *testing.T, e *harness.Endpoint) string {
	t.Helper()
	base, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	config := e.TLS()
	config.ServerName = harness.Domain
	conn, err := tls.Dial("tcp", base.Host, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sum := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// show opens a page and returns its document when it has been loaded.
func show(t *testing.T, e *harness.Endpoint, page string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := chromium(ctx, t, e, "--dump-dom", page)
	var document, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &document, &complaints
	if err := run(cmd); err != nil {
		t.Fatalf("%s: %v\n%s", page, err, complaints.String())
	}
	return document.String()
}
