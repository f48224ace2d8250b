// Package client starts programs that use real, unmodified E2B SDKs, one process each, as their users would: Python from a
// virtual environment, JavaScript beside its node_modules. It knows the SDK generations that are supported and where
// integration/tools/install.sh puts them, and what a program is told of a deployment. What the programs do and print is the
// business of the tests that start them.
package client

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Client is one SDK version in one language and, for Python, one of its two APIs.
type Client struct {
	Name string
	// Language is "py" or "js".
	Language string
	// Install is the directory under .cache/ that holds the SDK.
	Install string
	// API is the argument of --api; empty for JavaScript, which has one API only.
	API string
	// DownloadsOverHTTP1 is true for SDKs that read files over HTTP/1.1 even where HTTP/2 is offered. The newest
	// Python does so on purpose, because its HTTP/2 stack gives up on a connection after 100 empty DATA frames.
	DownloadsOverHTTP1 bool
	// Quadratic is true for SDKs that copy what they hold of an envelope for every piece that arrives, and what is left of a
	// body for every HTTP/2 frame they send. The larger the pieces the better they do: 20 MiB of output in one envelope
	// take them half a minute of CPU over cleartext HTTP/1.1 and longer over TLS, 64 MiB of upload over HTTP/2 as long.
	Quadratic bool
}

// All are the SDK generations that the gateway promises to serve.
var All = []Client{
	{Name: "py-2.34.0-sync", Language: "py", Install: "py-e2b-2.34.0", API: "sync", Quadratic: true},
	{Name: "py-2.34.0-async", Language: "py", Install: "py-e2b-2.34.0", API: "async", Quadratic: true},
	{Name: "py-newest-sync", Language: "py", Install: "py-e2b-newest", API: "sync", DownloadsOverHTTP1: true},
	{Name: "py-newest-async", Language: "py", Install: "py-e2b-newest", API: "async", DownloadsOverHTTP1: true},
	{Name: "js-2.34.0", Language: "js", Install: "js-e2b-2.34.0"},
	{Name: "js-2.50.0", Language: "js", Install: "js-e2b-2.50.0"},
	{Name: "js-2.51.0", Language: "js", Install: "js-e2b-2.51.0"},
}

// Named is one of All.
func Named(t testing.TB, name string) Client {
	t.Helper()
	for _, c := range All {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no client is called %q", name)
	return Client{}
}

// command prepares a program for this client; see Program.
func (c Client) command(ctx context.Context, t testing.TB, p Program) *exec.Cmd {
	t.Helper()
	root := checkout(t)
	installed := filepath.Join(root, ".cache", c.Install)
	if _, err := os.Stat(filepath.Join(installed, ".installed-from")); err != nil {
		t.Fatalf("%s is not installed; run make deps: %v", c.Install, err)
	}
	if c.Language == "py" {
		script := filepath.Join(root, p.Folder, "py", p.Name+".py")
		return exec.CommandContext(ctx, filepath.Join(installed, "bin", "python"), append([]string{script, "--api", c.API}, p.Args...)...)
	}
	return exec.CommandContext(ctx, "node", append([]string{filepath.Join(besideModules(t, filepath.Join(root, p.Folder), installed), p.Name+".mjs")}, p.Args...)...)
}

// besideModules copies the JavaScript programs of a folder below the directory that holds node_modules and returns the copy's
// place: an ES module finds its packages only from where its file lies.
func besideModules(t testing.TB, folder, installed string) string {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(folder, "js", "programs", "*.mjs"))
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
