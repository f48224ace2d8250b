package readme

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// Whoever copies a Caddyfile out of the README copies one that is valid.
func TestTheCaddyfilesInTheREADMEAreValid(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"keys.json": `{"keys": []}`, "token-2026-12": strings.Repeat("k", 32)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for _, block := range fence.FindAllStringSubmatch(read(t), -1) {
		if block[1] != "caddyfile" || !strings.HasPrefix(block[2], "{") {
			continue // parts of one
		}
		seen++
		text := strings.NewReplacer("<SHA-256 of the key>", strings.Repeat("0", 64), "/etc/e2b-gateway", dir).Replace(block[2])
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		var config caddy.Config
		if err := caddy.StrictUnmarshalJSON(adapted, &config); err != nil {
			t.Fatal(err)
		}
		config.StorageRaw = []byte(`{"module": "file_system", "root": "` + t.TempDir() + `"}`)
		if err := caddy.Validate(&config); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	if seen == 0 {
		t.Error("there is no Caddyfile")
	}
}
