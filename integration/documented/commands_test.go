package documented

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// caddys are the commands that every Caddy has.
var caddys = []string{
	"adapt", "add-package", "build-info", "completion", "environ", "file-server", "fmt", "hash-password", "list-modules", "manpage",
	"reload", "remove-package", "respond", "reverse-proxy", "run", "start", "stop", "storage", "trust", "untrust", "upgrade", "validate", "version",
}

// The manual pages are what the binary itself says that it has.
func TestEveryCommandAndFlagIsDocumented(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command(harness.Build(t), "manpage", "--directory", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	manuals, err := filepath.Glob(filepath.Join(dir, "e2b-gateway-*.8"))
	if err != nil || len(manuals) == 0 {
		t.Fatalf("no manual pages: %v", err)
	}
	commands := page(t, "docs/commands.md")
	seen := 0
	for _, manual := range manuals {
		words := strings.Split(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(manual), "e2b-gateway-"), ".8"), "-")
		if slices.ContainsFunc(caddys, func(name string) bool {
			return name == strings.Join(words, "-") || strings.HasPrefix(strings.Join(words, "-"), name+"-")
		}) {
			continue
		}
		seen++
		name := strings.Join(words, " ")
		section, ok := part(commands, strings.Repeat("#", 1+len(words))+" "+name)
		if !ok { // a name may have the sign between its own words
			section, ok = part(commands, "## "+strings.Join(words, "-"))
		}
		if !ok {
			t.Errorf("docs/commands.md has no heading for %q", name)
			continue
		}
		text, err := os.ReadFile(manual)
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range flagForm.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\-`, "-"), -1) {
			if flag[1] != "help" && !regexp.MustCompile(`--`+flag[1]+`\b`).MatchString(section) {
				t.Errorf("docs/commands.md has no --%s of %q", flag[1], name)
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d commands of ours were found", seen)
	}
}

var flagForm = regexp.MustCompile(`--([a-z][a-z-]+)\b`)
