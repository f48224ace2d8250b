package sdk

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// client is one SDK version in one language and, for Python, one of its two APIs.
type client struct {
	name string
	// language is "py" or "js".
	language string
	// install is the directory under .cache/ that holds the SDK.
	install string
	// api is the argument of --api; empty for JavaScript, which has one API only.
	api string
	// downloadsOverHTTP1 is true for SDKs that read files over HTTP/1.1 even where HTTP/2 is offered. The newest
	// Python does so on purpose, because its HTTP/2 stack gives up on a connection after 100 empty DATA frames.
	downloadsOverHTTP1 bool
	// quadratic is true for SDKs that copy what they hold of an envelope for every piece that arrives, and what is left of a
	// body for every HTTP/2 frame they send. The larger the pieces the better they do: 20 MiB of output in one envelope
	// take them half a minute of CPU over cleartext HTTP/1.1 and longer over TLS, 64 MiB of upload over HTTP/2 as long.
	quadratic bool
}

// clients are the SDK generations that the gateway promises to serve.
var clients = []client{
	{name: "py-2.34.0-sync", language: "py", install: "py-e2b-2.34.0", api: "sync", quadratic: true},
	{name: "py-2.34.0-async", language: "py", install: "py-e2b-2.34.0", api: "async", quadratic: true},
	{name: "py-newest-sync", language: "py", install: "py-e2b-newest", api: "sync", downloadsOverHTTP1: true},
	{name: "py-newest-async", language: "py", install: "py-e2b-newest", api: "async", downloadsOverHTTP1: true},
	{name: "js-2.34.0", language: "js", install: "js-e2b-2.34.0"},
	{name: "js-2.50.0", language: "js", install: "js-e2b-2.50.0"},
	{name: "js-2.51.0", language: "js", install: "js-e2b-2.51.0"},
}

// command prepares one of the programs, such as "life", for this client.
func (c client) command(ctx context.Context, t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	root := checkout(t)
	installed := filepath.Join(root, ".cache", c.install)
	if _, err := os.Stat(filepath.Join(installed, ".installed-from")); err != nil {
		t.Fatalf("%s is not installed; run make deps: %v", c.install, err)
	}
	if c.language == "py" {
		script := filepath.Join(root, "integration", "sdk", "py", program+".py")
		return exec.CommandContext(ctx, filepath.Join(installed, "bin", "python"), append([]string{script, "--api", c.api}, args...)...)
	}
	return exec.CommandContext(ctx, "node", append([]string{filepath.Join(c.besideModules(t, root, installed), program+".mjs")}, args...)...)
}

// besideModules copies the JavaScript programs below the directory that holds node_modules and returns the copy's
// place: an ES module finds its packages only from where its file lies.
func (c client) besideModules(t testing.TB, root, installed string) string {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(root, "integration", "sdk", "js", "programs", "*.mjs"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no JavaScript programs found: %v", err)
	}
	dir, err := os.MkdirTemp(installed, "run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, program := range programs {
		text, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(program)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// checkout returns the directory that holds go.mod.
func checkout(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}
