package harness

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Build is the path of the real binary, built from the checkout once for all
// tests of a process. E2B_GATEWAY_BINARY names one that is built already.
func Build(t testing.TB) string {
	t.Helper()
	if program := os.Getenv("E2B_GATEWAY_BINARY"); program != "" {
		return program
	}
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// build keeps the binary at one place for each checkout and user: go build has
// nothing to do when it is there and up to date. The lock keeps test processes
// that run side by side from building it twice at the same time.
var build = sync.OnceValues(func() (program string, err error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("e2b-gateway-%d-%x", os.Getuid(), sha256.Sum256([]byte(root)))[:40])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "e2b-gateway")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/e2b-gateway")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	return program, nil
})

// Root is the directory of the checkout, where go.mod is.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == os.DevNull {
		return "", errors.New("not inside the module")
	}
	return filepath.Dir(file), nil
}
