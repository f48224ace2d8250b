package adapt

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // what a Caddyfile may use

	_ "github.com/caddy-e2b/gateway/module"
)

var update = flag.Bool("update", false, "write what comes out into the golden files")

const separator = "\n----------\n"

// golden is one file: what goes in and what must come out.
type golden struct{ path, in, out string }

func goldens(t *testing.T, dir string) []golden {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.caddyfiletest"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	var all []golden
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		in, out, ok := strings.Cut(string(b), separator)
		if !ok && !*update {
			t.Fatalf("%s: no line of ten dashes", path)
		}
		all = append(all, golden{path, in, strings.TrimSpace(out)})
	}
	return all
}

func (g golden) check(t *testing.T, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(g.path, []byte(g.in+separator+got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != g.out {
		t.Errorf("got:\n%s\nwant:\n%s", got, g.out)
	}
}

func adapt(caddyfile string) ([]byte, []caddyconfig.Warning, error) {
	return caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
}

func TestACaddyfileBecomesItsJSON(t *testing.T) {
	for _, g := range goldens(t, "accepted") {
		t.Run(filepath.Base(g.path), func(t *testing.T) {
			got, _, err := adapt(g.in)
			if err != nil {
				t.Fatal(err)
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, got, "", "\t"); err != nil {
				t.Fatal(err)
			}
			g.check(t, indented.String())
		})
	}
}

func TestAWrongCaddyfileIsRefusedWithFileAndLine(t *testing.T) {
	for _, g := range goldens(t, "refused") {
		t.Run(filepath.Base(g.path), func(t *testing.T) {
			got, _, err := adapt(g.in)
			if err == nil {
				t.Fatalf("accepted as %s", got)
			}
			if !strings.Contains(err.Error(), "Caddyfile:") {
				t.Errorf("the error names no file and line: %v", err)
			}
			g.check(t, err.Error())
		})
	}
}

// TestTheAcceptedAreValid: what adapts must also start, as far as that can be
// known without starting it.
func TestTheAcceptedAreValid(t *testing.T) {
	t.Setenv("REDIS_PASSWORD", "secret")
	t.Setenv("SENTINEL_PASSWORD", "secret")
	t.Setenv("KEYS_BEARER", "secret")
	t.Setenv("KEYS_FILE", keysFile(t))
	t.Setenv("ROCK_ADMIN", "http://rock-admin:8080")
	t.Setenv("TOKEN_KEY", strings.Repeat("k", 32))
	t.Setenv("AES_KEY", strings.Repeat("k", 43)+"=")
	for _, g := range goldens(t, "accepted") {
		t.Run(filepath.Base(g.path), func(t *testing.T) { validate(t, g.in) })
	}
}

// keysFile is a file of API keys without any.
func keysFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(`{"keys": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheExampleAdaptsAndIsValid(t *testing.T) {
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	_, warnings, err := adapt(string(example))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	t.Setenv("REDIS_PASSWORD", "secret")
	t.Setenv("TOKEN_KEY", strings.Repeat("k", 32))
	validate(t, strings.ReplaceAll(string(example), "/etc/e2b-gateway/keys.json", keysFile(t)))
}

// Contract checklist 64: while Python 2.34.0 is served, no client is offered
// HTTP/2.
func TestTheExampleOffersHTTP1Only(t *testing.T) {
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	adapted, _, err := adapt(string(example))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Protocols []string `json:"protocols"`
				} `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Apps.HTTP.Servers) == 0 {
		t.Fatal("no servers")
	}
	for name, server := range config.Apps.HTTP.Servers {
		if len(server.Protocols) != 1 || server.Protocols[0] != "h1" {
			t.Errorf("server %s offers %v", name, server.Protocols)
		}
	}
}

func validate(t *testing.T, caddyfile string) {
	t.Helper()
	adapted, _, err := adapt(caddyfile)
	if err != nil {
		t.Fatal(err)
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	// Nothing of a test may be written to the user's home.
	config.StorageRaw, err = json.Marshal(map[string]string{"module": "file_system", "root": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&config); err != nil {
		t.Error(err)
	}
}
