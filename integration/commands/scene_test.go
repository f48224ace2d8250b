package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// result is what a run of the binary came to.
type result struct {
	out, err string
	code     int
}

// run runs the binary with something on standard input and more environment.
func run(t *testing.T, stdin string, env []string, args ...string) result {
	t.Helper()
	return runProgram(t, harness.Build(t), stdin, env, args...)
}

func runProgram(t *testing.T, program, stdin string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), "XDG_DATA_HOME="+cmd.Dir, "XDG_CONFIG_HOME="+cmd.Dir, "HOME="+cmd.Dir), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// decode reads the JSON of a command that ended with a code.
func (r result) decode(t *testing.T, code int, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), to); err != nil || r.code != code {
		t.Fatalf("%v: %+v", err, r)
	}
}

func writeFile(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
