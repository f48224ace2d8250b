package xcaddy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	xcaddy = "github.com/caddyserver/xcaddy/cmd/xcaddy@v0.4.5"
	module = "github.com/caddy-e2b/gateway"
)

// caddyVersion is the version of Caddy in go.mod.
func caddyVersion(t *testing.T, root string) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/caddyserver/caddy/v2")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// unpublished is a module proxy that knows every module but ours. xcaddy asks
// for the latest version of what it builds in, even when that is replaced by a
// directory; of a module that is nowhere to be found Go takes the directory,
// but a proxy that answers with another error ends the build.
func unpublished(t *testing.T) (goproxy string) {
	t.Helper()
	first, _, _ := strings.Cut(strings.ReplaceAll(goEnv(t, "GOPROXY"), "|", ","), ",")
	if !strings.HasPrefix(first, "http") {
		t.Fatalf("this test needs a module proxy, GOPROXY begins with %q", first)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/"+module+"/") {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, strings.TrimSuffix(first, "/")+r.URL.EscapedPath(), http.StatusFound)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func TestXcaddyBuildsACaddyWithTheModule(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("as the README says", func(t *testing.T) { build(t, root, module+"@v0.0.0="+root) })
	t.Run("without a version", func(t *testing.T) {
		t.Setenv("GOPROXY", unpublished(t))
		build(t, root, module+"="+root)
	})
}

func build(t *testing.T, root, with string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "caddy")
	t.Setenv("REDIS_PASSWORD", "secret")
	t.Setenv("TOKEN_KEY", strings.Repeat("k", 32))
	// Caddy writes nothing to the user's home.
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	// xcaddy's own -trimpath and CGO_ENABLED=0 would compile everything anew;
	// with the flags of other tests their work is found in Go's cache.
	t.Setenv("XCADDY_GO_BUILD_FLAGS", "-ldflags=-w -tags=nobadger,nomysql,nopgx")
	t.Setenv("CGO_ENABLED", goEnv(t, "CGO_ENABLED"))
	// go run runs in a directory without a module, so that it is the pinned
	// xcaddy with its own dependencies.
	run(t, dir, "go", "run", xcaddy, "build", caddyVersion(t, root), "--with", with, "--output", program)

	modules := map[string]string{} // id -> package
	for line := range strings.Lines(run(t, dir, program, "list-modules", "--packages")) {
		if id, pkg, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			modules[id] = strings.TrimSpace(pkg)
		}
	}
	for _, id := range []string{"e2b", "http.handlers.e2b", "e2b.registries.redis", "e2b.registries.control", "e2b.registries.static",
		"e2b.keys.off", "e2b.keys.static", "e2b.keys.file", "e2b.keys.redis", "e2b.keys.http"} {
		if pkg := modules[id]; !strings.HasPrefix(pkg, module+" ") || !strings.HasSuffix(pkg, " => "+root) {
			t.Errorf("module %s is of %q, want %s => %s", id, pkg, module, root)
		}
	}

	help := run(t, dir, program, "help")
	for _, command := range []string{"doctor", "explain", "routes", "streams", "drain", "keys", "tokens", "gateway-version"} {
		if !strings.Contains(help, "\n  "+command+" ") {
			t.Errorf("there is no command %s", command)
		}
	}

	// The directory that took the module's place has no version, whatever it was called.
	if said := run(t, dir, program, "gateway-version"); !strings.Contains(said, "gateway    unknown\n") ||
		!strings.Contains(said, "caddy      "+caddyVersion(t, root)+"\n") {
		t.Errorf("gateway-version says\n%s", said)
	}

	example := exampleIn(t, dir, root)
	adapted := run(t, dir, program, "adapt", "--adapter", "caddyfile", "--config", example)
	if !strings.Contains(adapted, `"handler":"e2b"`) {
		t.Errorf("the example adapts to %s", adapted)
	}
	run(t, dir, program, "validate", "--adapter", "caddyfile", "--config", example)
}

// exampleIn copies the example to dir, with an empty file of keys there.
func exampleIn(t *testing.T, dir, root string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Caddyfile.example"))
	if err != nil {
		t.Fatal(err)
	}
	keys, example := filepath.Join(dir, "keys.json"), filepath.Join(dir, "Caddyfile.example")
	for file, content := range map[string]string{
		keys:    `{"keys": []}`,
		example: strings.ReplaceAll(string(text), "/etc/e2b-gateway/keys.json", keys),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return example
}
