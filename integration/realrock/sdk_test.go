//go:build realrock

package realrock

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// servesTheSDK: the real SDK works in a real ROCK's sandbox, and a kill that cannot be is an exception and not False.
func servesTheSDK(t *testing.T, g *harness.Process, id string) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, ".cache", "py-e2b-2.34.0", "bin", "python"),
		filepath.Join(root, "integration", "realrock", "py", "program.py"), id)
	cmd.Env = append(os.Environ(), "E2B_API_URL="+g.URL, "E2B_SANDBOX_URL="+g.URL, "E2B_API_KEY=e2b_0000000000")
	out, err := cmd.CombinedOutput()
	if want := "running True\ncommand hello\nfile 300000\nlisted True\nkill raises SandboxException\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
